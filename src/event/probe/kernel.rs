//! Parameters of the kernel's functions, from its BTF.

use crate::kernel::bpf::btf::Btf;

use super::args::{Parameter, Parameters};

/// The running kernel's functions.
#[derive(Debug)]
pub struct KernelFunctions {
    btf: Option<Btf>,
}

impl KernelFunctions {
    /// Reads the running kernel's BTF; without BTF no parameters are known.
    pub fn system() -> Self {
        Self { btf: Btf::system().ok() }
    }
}

impl Parameters for KernelFunctions {
    fn of(&self, function: &str) -> Option<Vec<Parameter>> {
        let btf = self.btf.as_ref()?;
        let one = |(name, id): (String, u32)| {
            let (kind, fetch) = btf.describe(id);
            Parameter { name, kind, fetch }
        };
        Some(btf.parameters(function)?.into_iter().map(one).collect())
    }

    fn member(&self, function: &str, parameter: usize, path: &[&str]) -> Result<(Vec<u32>, String), String> {
        let btf = self.btf.as_ref().ok_or("the kernel has no type information (BTF)")?;
        let known = btf.parameters(function).unwrap_or_default();
        let (_, id) = known.get(parameter).ok_or("no such parameter")?;
        let (offsets, kind) = btf.follow(*id, path).map_err(|error| error.to_string())?;
        Ok((offsets, btf.describe(kind).1))
    }
}

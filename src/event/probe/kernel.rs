//! What is known of the kernel's functions: their parameters by its own description of types.

use crate::kernel::btf::Btf;

use super::args::{Parameter, Parameters};

/// The running kernel's functions.
#[derive(Debug)]
pub struct KernelFunctions {
    btf: Option<Btf>,
}

impl KernelFunctions {
    /// Of the running kernel; without a description of types nothing is known.
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
        let btf = self.btf.as_ref().ok_or("the kernel does not describe its types")?;
        let known = btf.parameters(function).unwrap_or_default();
        let (_, id) = known.get(parameter).ok_or("there is no such parameter")?;
        let (offsets, kind) = btf.follow(*id, path).map_err(|error| error.to_string())?;
        Ok((offsets, btf.describe(kind).1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Spec;
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn names_of_the_running_kernel() {
        let known = KernelFunctions::system();
        if known.btf.is_none() {
            return;
        }
        let spec = Spec::parse("tcp_sendmsg size sk->__sk_common.skc_dport").expect("parses");
        let line = spec.in_kernel("g", &known).expect("resolved").line();
        assert!(line.starts_with("p:g/tcp_sendmsg tcp_sendmsg size=%dx:u64 skc_dport=+"), "{line}");
        assert!(line.ends_with("(%di):u16"), "{line}");
        let wrong = Spec::parse("tcp_sendmsg nothing").expect("parses").in_kernel("g", &known).expect_err("unknown");
        assert!(wrong.contains("sk, msg, size"), "{wrong}");
    }
}

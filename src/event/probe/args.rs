//! The arguments of probes in fetch syntax. Registers follow the calling convention, names are known parameters.

use super::ProbeSpec;

/// The registers of integer and pointer arguments, in order. Names are the kernel's (System V ABI for x86-64; AAPCS64).
#[cfg(target_arch = "aarch64")]
pub(crate) const REGISTERS: &[&str] = &["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"];
#[cfg(not(target_arch = "aarch64"))]
pub(crate) const REGISTERS: &[&str] = &["di", "si", "dx", "cx", "r8", "r9"];

/// A parameter of a function, or a member that is reached from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub(crate) name: String,
    pub(crate) kind: String,
    /// The kernel's fetch type: u32, s64, x64…
    pub(crate) fetch: String,
}

/// The known parameters of a function.
pub trait Parameters {
    /// Returns the parameters in order; `None` if the function is unknown.
    fn of(&self, function: &str) -> Option<Vec<Parameter>>;

    /// Returns the register index in [`REGISTERS`] of a parameter.
    fn register(&self, _function: &str, parameter: usize) -> Result<usize, String> {
        Ok(parameter)
    }

    /// Returns the offsets from a parameter to a member, and the member's fetch type. There is an offset per pointer.
    fn member(&self, function: &str, parameter: usize, path: &[&str]) -> Result<(Vec<u32>, String), String>;
}

pub(crate) struct None;

impl Parameters for None {
    fn of(&self, _: &str) -> Option<Vec<Parameter>> {
        Option::None
    }

    fn member(&self, _: &str, _: usize, _: &[&str]) -> Result<(Vec<u32>, String), String> {
        Err("its parameters are unknown".to_owned())
    }
}

pub(crate) fn resolve_all(spec: &ProbeSpec, parameters: &dyn Parameters) -> Result<Vec<String>, String> {
    let mut out: Vec<String> = Vec::new();
    for arg in &spec.args {
        let mut resolved = resolve(arg, spec, parameters)?;
        // The kernel rejects duplicate names.
        let name = resolved.0.clone();
        let taken = |name: &str| out.iter().any(|known| known.split('=').next() == Some(name));
        let mut n = 2;
        while taken(&resolved.0) {
            resolved.0 = format!("{name}_{n}");
            n += 1;
        }
        out.push(format!("{}={}", resolved.0, resolved.1));
    }
    Ok(out)
}

/// Resolves `[NAME=]FETCH[:TYPE]` to (name, fetch).
fn resolve(arg: &str, spec: &ProbeSpec, parameters: &dyn Parameters) -> Result<(String, String), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_%$@+-()>.:=[]\\*,".contains(c);
    if !arg.chars().all(allowed) {
        return Err(format!(
            "{arg}: invalid argument; expected a name, argN, $retval, %register or +offset(%register)"
        ));
    }
    let (name, fetch) = arg.split_once('=').map_or((Option::None, arg), |(name, fetch)| (Some(name), fetch));
    let (what, kind) = fetch.rsplit_once(':').map_or((fetch, Option::None), |(what, kind)| (what, Some(kind)));
    let made = |base: &str| name.map_or_else(|| super::as_name(base), str::to_owned);
    let raw = what.starts_with(['%', '$', '@', '+', '-', '\\']);
    if raw {
        let base = match what {
            "$retval" => "ret".to_owned(),
            other => other.trim_start_matches(['%', '$', '@', '\\', '+', '-']).to_owned(),
        };
        let kind = kind.map(|kind| format!(":{kind}")).unwrap_or_default();
        return Ok((made(base.split(['(', ')']).find(|t| !t.is_empty()).unwrap_or("arg")), format!("{what}{kind}")));
    }
    if spec.on_return {
        return Err(format!("{what}: a return probe has only $retval"));
    }
    if spec.offset > 0 || spec.line.is_some_and(|line| line > 0) {
        return Err(format!("{what}: inside a function only registers are available, such as %di"));
    }
    if let Some(n) = what.strip_prefix("arg").and_then(|n| n.parse::<usize>().ok()) {
        return Ok((made(what), fetch_of(n.wrapping_sub(1), &[], kind.unwrap_or("x64"))?));
    }
    let path: Vec<&str> = what.split("->").flat_map(|part| part.split('.')).collect();
    let known = parameters.of(&spec.function).ok_or_else(|| {
        format!(
            "{what}: the parameters of {} are unknown; use the registers arg1 to arg{}",
            spec.function,
            REGISTERS.len()
        )
    })?;
    let index = known.iter().position(|p| p.name == path[0]).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|p| p.name.as_str()).collect();
        format!("{} has no parameter {}; it has {}", spec.function, path[0], names.join(", "))
    })?;
    let register = parameters.register(&spec.function, index)?;
    if path.len() == 1 {
        return Ok((made(path[0]), fetch_of(register, &[], kind.unwrap_or(&known[index].fetch))?));
    }
    let (offsets, own) = parameters.member(&spec.function, index, &path[1..])?;
    Ok((made(path[path.len() - 1]), fetch_of(register, &offsets, kind.unwrap_or(&own))?))
}

/// Returns the fetch of a parameter, through pointers. Text needs one more dereference.
fn fetch_of(index: usize, offsets: &[u32], kind: &str) -> Result<String, String> {
    let register = REGISTERS.get(index).ok_or_else(|| {
        format!("parameter {} is on the stack; use an offset such as +8($stack)", index.wrapping_add(1))
    })?;
    let mut out = format!("%{register}");
    for offset in offsets {
        out = format!("+{offset}({out})");
    }
    if matches!(kind, "string" | "ustring") {
        out = format!("+0({out})");
    }
    Ok(format!("{out}:{kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known;

    impl Parameters for Known {
        fn of(&self, function: &str) -> Option<Vec<Parameter>> {
            let one =
                |name: &str, fetch: &str| Parameter { name: name.into(), kind: "int".into(), fetch: fetch.into() };
            (function == "send").then(|| vec![one("sk", "x64"), one("msg", "x64"), one("size", "u64")])
        }

        fn member(&self, _: &str, _: usize, path: &[&str]) -> Result<(Vec<u32>, String), String> {
            if path == ["len"] { Ok((vec![16], "s32".into())) } else { Err(format!("no member {}", path[0])) }
        }
    }

    fn args(text: &str) -> Result<Vec<String>, String> {
        resolve_all(&ProbeSpec::parse(text).expect(text), &Known)
    }

    #[test]
    #[cfg(not(target_arch = "aarch64"))]
    fn names_become_registers() {
        assert_eq!(args("send size"), Ok(vec!["size=%dx:u64".into()]));
        assert_eq!(
            args("send n=size:u32 msg->len arg1"),
            Ok(vec!["n=%dx:u32".into(), "len=+16(%si):s32".into(), "arg1=%di:x64".into()])
        );
        assert_eq!(
            args("send arg2:string arg2:string"),
            Ok(vec!["arg2=+0(%si):string".into(), "arg2_2=+0(%si):string".into()])
        );
        assert_eq!(args("send%return $retval r=$retval:s32"), Ok(vec!["ret=$retval".into(), "r=$retval:s32".into()]));
        assert_eq!(args("send +8(%si):u32 %ax"), Ok(vec!["_8=+8(%si):u32".into(), "ax=%ax".into()]));
        for (text, words) in [
            ("send nothing", "sk, msg, size"),
            ("other size", "unknown"),
            ("send msg->x", "no member x"),
            ("send%return size", "only $retval"),
            ("send+4 size", "only registers"),
            ("send arg9", "on the stack"),
            ("send arg0", "on the stack"),
            ("send a`b", "invalid argument"),
        ] {
            let error = args(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}

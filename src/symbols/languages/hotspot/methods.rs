//! Names of methods in the memory of a process.

use super::layout::ConstantLayout;
use crate::kernel::walk::runtime::{METHOD_BYTES, SYMBOL_BYTES, method_cookie};
use crate::symbols::languages::ProcessMemory;

/// Bytes of a name at most.
const NAME: usize = 512;

fn half(memory: &impl ProcessMemory, at: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    memory.read(at, &mut bytes)?;
    Some(u32::from_le_bytes(bytes))
}

fn short(memory: &impl ProcessMemory, at: u64) -> Option<u16> {
    let mut bytes = [0; 2];
    memory.read(at, &mut bytes)?;
    Some(u16::from_le_bytes(bytes))
}

impl ConstantLayout {
    /// Returns the class and the name of a method, given its constant part; `None` if that is not one.
    pub(super) fn label(&self, constant: u64, memory: &impl ProcessMemory) -> Option<String> {
        let pool = memory.word(constant.checked_add(self.constants)?)?;
        let class = memory.word(pool.checked_add(self.pool_holder)?)?;
        // The class has the same constants: what was freed and used again does not.
        if memory.word(class.checked_add(self.class_constants)?)? != pool {
            return None;
        }
        let index = short(memory, constant.checked_add(self.name)?)?;
        if u32::from(index) >= half(memory, pool.checked_add(self.pool_length)?)? {
            return None;
        }
        let name = memory.word(pool.checked_add(self.pool_size + 8 * u64::from(index))?)?;
        let name = self.symbol(name, memory)?;
        let class = self.symbol(memory.word(class.checked_add(self.class_name)?)?, memory)?;
        Some(format!("{}.{name}", without_address(&class).replace('/', ".")))
    }

    /// Returns the hash of what identifies the method that has a constant part now.
    pub(super) fn cookie(&self, constant: u64, memory: &impl ProcessMemory) -> Option<u32> {
        let mut bytes = [0; METHOD_BYTES];
        memory.read(constant, &mut bytes)?;
        let pool = memory.word(constant.checked_add(self.constants)?)?;
        let index = short(memory, constant.checked_add(self.name)?)?;
        let name = memory.word(pool.checked_add(self.pool_size + 8 * u64::from(index))?)?;
        let class = memory.word(memory.word(pool.checked_add(self.pool_holder)?)?.checked_add(self.class_name)?)?;
        let symbol = |at: u64| {
            let len = short(memory, at.checked_add(self.symbol_length)?)?;
            let mut text = [0; SYMBOL_BYTES];
            memory.read(at.checked_add(self.symbol_body)?, &mut text[..usize::from(len).min(SYMBOL_BYTES)])?;
            Some((len, text))
        };
        Some(method_cookie(&bytes, [symbol(name)?, symbol(class)?]))
    }

    pub(super) fn symbol(&self, at: u64, memory: &impl ProcessMemory) -> Option<String> {
        let len = usize::from(short(memory, at.checked_add(self.symbol_length)?)?);
        let mut bytes = vec![0; len.min(NAME)];
        memory.read(at.checked_add(self.symbol_body)?, &mut bytes)?;
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if len > NAME {
            text.push('…');
        }
        (len > 0).then_some(text)
    }
}

/// Returns the name of a class without its address, which hidden classes have behind `+` or `/`.
fn without_address(class: &str) -> &str {
    let own = class.rfind("0x").filter(|at| class[at + 2..].bytes().all(|byte| byte.is_ascii_hexdigit()));
    let own = own.and_then(|at| class[..at].strip_suffix(['+', '/', '.']));
    own.unwrap_or(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_classes_have_no_address_in_their_names() {
        for (class, own) in [
            ("Shop$$Lambda$14+0x0000000800c03000", "Shop$$Lambda$14"),
            ("Shop$$Lambda/0x00007f01", "Shop$$Lambda"),
            ("Shop", "Shop"),
            ("Shop0x12", "Shop0x12"),
            ("a/b0x/C", "a/b0x/C"),
            ("0x", "0x"),
        ] {
            assert_eq!(without_address(class), own);
        }
    }
}

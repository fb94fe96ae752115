//! Names of the kernel's functions by addresses in fields of events.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::profile::RetainedStack;

use super::Moment;

/// Limit of kept addresses: they share their storage with the stacks of all units, and are never released.
const MOST: usize = 1 << 12;

/// The addresses whose names are looked up, like those of stacks.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelFunctionNames(FxHashMap<u64, RetainedStack>);

impl KernelFunctionNames {
    /// Keeps an address of the kernel ([`super::Unit::pin_data`]).
    pub(crate) fn keep(&mut self, address: u64, pin: &mut dyn FnMut(i32, u64) -> RetainedStack) {
        if (address as i64) < 0 && self.0.len() < MOST {
            self.0.entry(address).or_insert_with(|| pin(0, address));
        }
    }

    /// Returns the function at a kept address, once its name is known, and the offset in it.
    pub(crate) fn at(&self, moment: &Moment<'_>, address: u64) -> Option<(Arc<str>, u64)> {
        moment.kernel_function(self.pin(address)?)
    }

    pub(crate) fn pin(&self, address: u64) -> Option<RetainedStack> {
        self.0.get(&address).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_kernel_are_kept_once_up_to_a_limit() {
        let (mut functions, mut asked) = (KernelFunctionNames::default(), 0);
        let mut keep = |address: u64| {
            functions.keep(address, &mut |_, _| {
                asked += 1;
                RetainedStack(asked)
            });
            functions.pin(address)
        };
        assert_eq!([0x1000, u64::MAX, u64::MAX].map(&mut keep), [None, Some(RetainedStack(1)), Some(RetainedStack(1))]);
        let last = (0..=MOST as u64).map(|i| keep(1 << 63 | i)).last();
        assert_eq!((last, asked as usize), (Some(None), MOST));
    }
}

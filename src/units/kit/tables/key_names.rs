//! The names of keys that events have as numbers: states, vectors, system calls, functions of the kernel.

use std::cell::Cell as Flag;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::event::format::Format;
use crate::panel::Cell;
use crate::profile::RetainedStack;
use crate::units::kit::field::Text;
use crate::units::kit::{BoundExpr, KernelFunctionNames, Moment, RowKey, UnitEvent, UnitSample};

/// Fields whose name is another field of the same event: the field, and the one with its name.
const NAMED_BY: &[(&str, &str, &str)] = &[("irq_handler_entry", "irq", "name")];

/// Limit of names from other fields.
const MOST_NAMES: usize = 1 << 12;
/// An address of the kernel.
const KERNEL: i64 = i64::MIN;

/// The names of an expression's values, if it is a field that has some.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyNames {
    field: Option<(Arc<Format>, Arc<str>)>,
    /// The field with the name, and the names that records had.
    named_by: Option<Text>,
    names: FxHashMap<i64, Arc<str>>,
    /// Whether the values are addresses of the kernel's functions.
    is_function: bool,
    functions: KernelFunctionNames,
}

impl KeyNames {
    pub(crate) fn of(key: &BoundExpr, event: &UnitEvent<'_>) -> Self {
        let Some((field, format)) = key.field().zip(event.format) else { return Self::default() };
        let named_by = NAMED_BY.iter().find(|(event, number, _)| *event == format.name && *number == field);
        let asked = Flag::new(false);
        format.words_with(field, KERNEL, &|_| {
            asked.set(true);
            None
        });
        Self {
            field: Some((format.clone(), field.into())),
            named_by: named_by.and_then(|(.., text)| Text::of(Some(format), text).ok()),
            is_function: asked.get(),
            ..Self::default()
        }
    }

    /// Keeps the name that a record has for its key.
    pub(crate) fn see(&mut self, key: &RowKey, hit: &UnitSample<'_>) {
        let (Some(text), Some(number)) = (&self.named_by, number(key)) else { return };
        if self.names.len() < MOST_NAMES && !self.names.contains_key(&number) {
            self.names.insert(number, String::from_utf8_lossy(text.bytes(hit.raw)).into());
        }
    }

    /// Keeps the addresses of functions, so that their names are looked up ([`crate::units::kit::Unit::pin_data`]).
    pub(crate) fn pin<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k RowKey>,
        pin: &mut dyn FnMut(i32, u64) -> RetainedStack,
    ) {
        if !self.is_function {
            return;
        }
        keys.filter_map(number).for_each(|number| self.functions.keep(number as u64, pin));
    }

    /// Returns a key by its name.
    pub(crate) fn named(&self, key: &RowKey, at: &Moment<'_>) -> Option<Cell> {
        self.name(key, |pin| at.kernel_function(pin)).map(|name| Cell::Text(name.into()))
    }

    /// Returns a key by its name, or as it is.
    pub(crate) fn cell(&self, key: &RowKey, at: &Moment<'_>) -> Cell {
        self.named(key, at).unwrap_or_else(|| key.cell())
    }

    /// Returns the name of a number that is not a function's address.
    pub(crate) fn of_number(&self, number: i128) -> Option<String> {
        self.name(&RowKey::Int(number), |_| None)
    }

    fn name(&self, key: &RowKey, function: impl Fn(RetainedStack) -> Option<(Arc<str>, u64)>) -> Option<String> {
        let (format, field) = self.field.as_ref()?;
        let number = number(key)?;
        if let Some(name) = self.names.get(&number) {
            return Some(format!("{number} {name}"));
        }
        let words = format.words_with(field, number, &|address| function(self.functions.pin(address)?));
        // A plain number stays one.
        words.filter(|words| *words != format!("{number:#x}") && !words.is_empty())
    }
}

/// Returns the number of a key as the bits of its field.
fn number(key: &RowKey) -> Option<i64> {
    let RowKey::Int(number) = key else { return None };
    i64::try_from(*number).or_else(|_| u64::try_from(*number).map(|number| number as i64)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(event: &str, fields: &str, print: &str, key: &str) -> KeyNames {
        let text = format!("name: {event}\nID: 1\nformat:\n{fields}\nprint fmt: {print}\n");
        let format = Arc::new(Format::parse("irq", &text, false).expect("a format"));
        let key = BoundExpr::parse(key, Some(&format)).expect("an expression");
        let event = UnitEvent { role: 0, number: 0, name: event, format: Some(&format), arch: "" };
        KeyNames::of(&key, &event)
    }

    const VEC: &str = "\tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n";
    const ACTION: &str = r#""vec=%u [action=%s]", REC->vec, __print_symbolic(REC->vec, { 1, "TIMER" }, { 9, "RCU" })"#;

    #[test]
    fn a_field_has_the_names_of_its_format() {
        let name = |key: &str, number| names("softirq_entry", VEC, ACTION, key).name(&RowKey::Int(number), |_| None);
        assert_eq!([1, 9, 10].map(|number| name("vec", number)), [Some("TIMER".into()), Some("RCU".into()), None]);
        assert_eq!(name("vec + 1", 1), None, "the expression is another number");
        assert_eq!(name("cpu", 1), None, "not a field of the event");
    }

    #[test]
    fn an_interrupt_has_the_name_of_its_records() {
        let fields =
            "\tfield:int irq;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:char name[4];\toffset:12;\tsize:4;\tsigned:0;\n";
        let mut names = names("irq_handler_entry", fields, r#""irq=%d name=%s", REC->irq, REC->name"#, "irq");
        let raw = [&[0; 8][..], &24i32.to_le_bytes(), b"net\0"].concat();
        names.see(&RowKey::Int(24), &UnitSample { raw: &raw, ..UnitSample::default() });
        assert_eq!([24, 25].map(|irq| names.name(&RowKey::Int(irq), |_| None)), [Some("24 net".into()), None]);
    }

    #[test]
    fn a_call_site_has_the_name_of_its_function() {
        const SITE: i128 = 0xffff_ffff_8100_0010;
        let fields = "\tfield:unsigned long call_site;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:void * ptr;\toffset:16;\tsize:8;\tsigned:0;\n";
        let print = r#""call_site=%pS ptr=%p", (void *)REC->call_site, REC->ptr"#;
        let pinned = |key: &str| {
            let (mut names, mut asked) = (names("kmalloc", fields, print, key), Vec::new());
            names.pin([RowKey::Int(SITE), RowKey::Int(7)].iter(), &mut |_, address| {
                asked.push(address);
                RetainedStack(asked.len() as u32)
            });
            (names, asked)
        };
        let (names, asked) = pinned("call_site");
        assert_eq!(asked, [SITE as u64]);
        let function = |pin: RetainedStack| (pin.0 == 1).then(|| (Arc::<str>::from("d_alloc"), 0x10));
        assert_eq!(names.name(&RowKey::Int(SITE), function).as_deref(), Some("d_alloc+0x10"));
        assert_eq!(names.name(&RowKey::Int(SITE + 1), function), None, "an address without a name is a number");
        let (names, asked) = pinned("ptr");
        assert_eq!((asked.len(), names.name(&RowKey::Int(SITE), function)), (0, None));
    }
}

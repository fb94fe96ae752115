//! A fence around readers of foreign files: where one of them panics, that is an error of its file, and not the end of
//! the program.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

thread_local! {
    /// Whether this thread is inside of a fence.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// What the last panic inside of one said.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Reads what others have written. Whoever calls drops what was read so far when it fails: it may be half done.
///
/// # Errors
/// What a panic said, and where.
pub(crate) fn guarded<R>(read: impl FnOnce() -> R) -> Result<R, String> {
    let outside = INSIDE.replace(true);
    let result = catch_unwind(AssertUnwindSafe(read));
    INSIDE.set(outside);
    result.map_err(|_| {
        let said = SAID.take();
        format!("its reader failed{}{said}", if said.is_empty() { "" } else { ": " })
    })
}

/// True if a panic of this thread ends nothing.
pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

/// Has every panic outside of a fence end the program, whatever thread it is in: no part of it goes on without another.
pub(crate) fn end_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if is_inside() {
            return note(info);
        }
        before(info);
        std::process::abort();
    }));
}

/// Keeps what a panic says until the fence asks for it.
fn note(info: &PanicHookInfo<'_>) {
    let words = info.payload_as_str().unwrap_or("a panic");
    let file = info.location().map(|at| (at.file().rsplit('/').next().unwrap_or_default(), at.line()));
    let place = file.map(|(name, line)| format!(" ({name}:{line})")).unwrap_or_default();
    SAID.set(format!("{words}{place}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_inside_is_an_error_and_the_thread_goes_on() {
        let list = [1, 2];
        let failed = guarded(|| list[std::hint::black_box(7)]);
        assert!(failed.is_err_and(|why| why.starts_with("its reader failed")));
        assert!(!is_inside());
        assert_eq!(guarded(|| (is_inside(), guarded(is_inside), is_inside())), Ok((true, Ok(true), true)));
    }
}

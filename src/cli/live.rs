//! The live screen's driver.
use super::args::{Live, Open};
pub fn run(_args: Live) -> anyhow::Result<u8> {
    Ok(0)
}
pub fn open(_args: Open) -> anyhow::Result<u8> {
    Ok(0)
}

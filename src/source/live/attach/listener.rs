//! The event that listens to changes of the kernel's code.

use crate::kernel::sys::Errno;
use crate::source::live::attr;
use crate::source::live::error::OpenError;

use super::{Attachment, EventTarget, OpenEvent};

impl Attachment {
    /// Listens on a CPU to changes of the kernel's code by a task, or by all (-1). Not possible before Linux 5.1.
    pub(crate) fn listen(&mut self, cpu: u32, pid: i32) -> Result<(), OpenError> {
        if !self.have.ksymbol {
            return Ok(());
        }
        let attr = attr::listener(&self.common, self.have);
        match self.sys.open(&attr, pid, cpu as i32, None, None) {
            Err(Errno::INVAL) => self.have.ksymbol = false,
            // Its events will not be opened either.
            Err(errno) if OpenError::is_gone(errno, cpu as i32) => {}
            Err(errno) => return Err(OpenError::open("dummy", &attr, errno, &self.rights)),
            Ok(fd) => {
                self.redirect(&fd, cpu)?;
                self.opened.push(OpenEvent::now(fd, None, cpu, EventTarget::Task(pid), 0));
            }
        }
        Ok(())
    }
}

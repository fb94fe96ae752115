//! The kernel's socket monitoring (sock_diag(7)): requests, dumps, subscriptions, and the parts of messages.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

// linux/netlink.h, linux/sock_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
const MESSAGE_HEADER: usize = 16;
/// The groups of `SKNLGRP_INET_TCP_DESTROY` and `SKNLGRP_INET6_TCP_DESTROY`.
const ENDS_OF_TCP: u32 = 1 | 1 << 2;
/// Bytes of messages about ended sockets that may wait.
const WAITING: libc::c_int = 4 << 20;

/// The reason why the kernel's list of sockets is missing or incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocketListError {
    /// A system call failed.
    #[error("netlink: {}", system(.0))]
    Netlink(i32),
    /// The kernel answered with an error number.
    #[error("the kernel refuses to list sockets: {}{}", system(.0), remedy(.0))]
    Refused(i32),
    /// The answer has no end.
    #[error("the kernel's list of sockets ends early")]
    Truncated,
    /// The list has more sockets than are read.
    #[error("more than {0} sockets")]
    TooMany(usize),
    /// No thread could be started, which enters network namespaces.
    #[error("no thread can be started to list sockets")]
    Thread,
}

fn system(errno: &i32) -> io::Error {
    io::Error::from_raw_os_error(*errno)
}

fn remedy(errno: &i32) -> &'static str {
    if *errno == libc::ENOENT { " (load the modules tcp_diag, udp_diag and unix_diag)" } else { "" }
}

impl From<io::Error> for SocketListError {
    fn from(error: io::Error) -> Self {
        Self::Netlink(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

fn open(flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_DGRAM | flags, libc::NETLINK_SOCK_DIAG) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel returned the descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The kernel's address, or ours with groups of messages.
fn address(groups: u32) -> libc::sockaddr_nl {
    // SAFETY: all zeroes are a valid address, that of the kernel.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address.nl_groups = groups;
    address
}

fn succeeded(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends a request and passes the body of each answer to `take` until it returns `false`.
pub(super) fn dump(request: &[u8], take: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), SocketListError> {
    let socket = open(libc::SOCK_CLOEXEC)?;
    let kernel = address(0);
    // Messages of other processes are refused from here on. SAFETY: the address is ours, with its size.
    let connected =
        unsafe { libc::connect(socket.as_raw_fd(), (&raw const kernel).cast(), size_of_val(&kernel) as u32) };
    succeeded(connected)?;
    rustix::io::write(&socket, request).map_err(io::Error::from)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        // SAFETY: the kernel writes at most the length of the buffer.
        let len = unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        let Ok(len) = usize::try_from(len) else { return Err(io::Error::last_os_error().into()) };
        if len == 0 {
            return Err(SocketListError::Truncated);
        }
        if !read_messages(&buffer[..len], take)? {
            return Ok(());
        }
    }
}

/// Subscribes to the ends of TCP sockets in the thread's network namespace.
pub(super) fn subscribe() -> io::Result<OwnedFd> {
    let socket = open(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)?;
    let fd = socket.as_raw_fd();
    for option in [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF] {
        let size = WAITING;
        // SAFETY: the value is an integer of this size.
        let set = unsafe {
            libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const size).cast(), size_of_val(&size) as u32)
        };
        if set == 0 {
            break;
        }
    }
    let groups = address(ENDS_OF_TCP);
    // SAFETY: the address is ours, with its size.
    succeeded(unsafe { libc::bind(fd, (&raw const groups).cast(), size_of_val(&groups) as u32) })?;
    Ok(socket)
}

/// Reads the next message of a subscription, and returns its length; `None` if another process sent it.
pub(super) fn receive(subscription: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let mut from = address(0);
    let mut size = size_of_val(&from) as u32;
    // SAFETY: the kernel writes at most the length of the buffer, and at most `size` bytes of the address.
    let len = unsafe {
        let (data, from) = (buffer.as_mut_ptr().cast(), (&raw mut from).cast());
        libc::recvfrom(subscription.as_raw_fd(), data, buffer.len(), 0, from, &raw mut size)
    };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    Ok((from.nl_pid == 0).then_some(len))
}

/// Makes a message that requests a dump.
pub(super) fn message(request: &[u8]) -> Vec<u8> {
    let mut message = ((MESSAGE_HEADER + request.len()) as u32).to_ne_bytes().to_vec();
    message.extend([SOCK_DIAG_BY_FAMILY, REQUEST_DUMP].iter().flat_map(|word| word.to_ne_bytes()));
    message.extend([0; 8]);
    message.extend(request);
    message
}

fn word16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads the messages of a buffer. Returns `false` after the last message, or if `take` returned `false`.
pub(super) fn read_messages(mut bytes: &[u8], take: &mut dyn FnMut(&[u8]) -> bool) -> Result<bool, SocketListError> {
    while !bytes.is_empty() {
        let (Some(len), Some(kind)) = (word(bytes, 0), word16(bytes, 4)) else {
            return Err(SocketListError::Truncated);
        };
        let body = bytes.get(MESSAGE_HEADER..len as usize).ok_or(SocketListError::Truncated)?;
        if matches!(kind, NLMSG_DONE | NLMSG_ERROR) {
            // Both begin with the negative error number of the request, or 0.
            let errno = word(body, 0).unwrap_or(0).cast_signed().unsigned_abs().cast_signed();
            return if errno == 0 { Ok(false) } else { Err(SocketListError::Refused(errno)) };
        }
        if !take(body) {
            return Ok(false);
        }
        bytes = bytes.get((len as usize).next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

/// Iterates over attributes: their types and values.
pub(super) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (len, kind) = (usize::from(word16(rest, 0)?), word16(rest, 2)?);
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_other_processes_are_ignored() {
        const COOKIE: &[u8] = b"a cookie";
        let subscription = subscribe().expect("a subscription");
        let (mut own, mut size) = (address(0), size_of::<libc::sockaddr_nl>() as u32);
        // SAFETY: the kernel writes at most `size` bytes of the address.
        let named = unsafe { libc::getsockname(subscription.as_raw_fd(), (&raw mut own).cast(), &raw mut size) };
        succeeded(named).expect("an address");
        let mut body = vec![libc::AF_INET as u8, 7, 0, 0];
        body.extend(COOKIE);
        let (message, other) = (message(&body), open(libc::SOCK_CLOEXEC).expect("a socket"));
        own.nl_groups = 0;
        // SAFETY: the message and the address are ours, with their sizes.
        let sent = unsafe {
            let (data, to) = (message.as_ptr().cast(), (&raw const own).cast());
            libc::sendto(other.as_raw_fd(), data, message.len(), 0, to, size)
        };
        assert_eq!(usize::try_from(sent), Ok(message.len()));
        let (mut buffer, mut ignored) = (vec![0; 1 << 13], 0);
        // The kernel also sends messages about sockets that end meanwhile.
        loop {
            match receive(&subscription, &mut buffer) {
                Ok(Some(len)) => assert!(!buffer[..len].windows(COOKIE.len()).any(|part| part == COOKIE)),
                Ok(None) => ignored += 1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {}
            }
        }
        assert!(ignored > 0);
    }

    /// The kernel answers a request that it refuses, and a dump that fails, with an error number.
    #[test]
    fn a_refused_request_is_an_error() {
        let answer = |kind: u16, errno: Option<i32>| {
            let body: Vec<u8> = errno.into_iter().flat_map(i32::to_ne_bytes).collect();
            let mut message = ((MESSAGE_HEADER + body.len()) as u32).to_ne_bytes().to_vec();
            message.extend(kind.to_ne_bytes());
            message.resize(MESSAGE_HEADER, 0);
            message.extend(body);
            read_messages(&message, &mut |_| true)
        };
        for kind in [NLMSG_ERROR, NLMSG_DONE] {
            assert_eq!(answer(kind, Some(-libc::EPERM)), Err(SocketListError::Refused(libc::EPERM)));
            assert_eq!([Some(0), None].map(|errno| answer(kind, errno)), [Ok(false); 2]);
            assert!(answer(kind, Some(i32::MIN)).is_err());
        }
        // No protocol has this number.
        let mut request = vec![libc::AF_INET as u8, 250];
        request.resize(56, 0);
        let refused = dump(&message(&request), &mut |_| true);
        assert!(matches!(refused, Err(SocketListError::Refused(_))), "{refused:?}");
    }
}

//! Names of error numbers (include/uapi/asm-generic/errno-base.h and errno.h: x86, Arm and most others).

const NAMES: &[&str] = &[
    "", "EPERM", "ENOENT", "ESRCH", "EINTR", "EIO", "ENXIO", "E2BIG", "ENOEXEC", "EBADF", "ECHILD", "EAGAIN", "ENOMEM",
    "EACCES", "EFAULT", "ENOTBLK", "EBUSY", "EEXIST", "EXDEV", "ENODEV", "ENOTDIR", "EISDIR", "EINVAL", "ENFILE",
    "EMFILE", "ENOTTY", "ETXTBSY", "EFBIG", "ENOSPC", "ESPIPE", "EROFS", "EMLINK", "EPIPE", "EDOM", "ERANGE",
    "EDEADLK", "ENAMETOOLONG", "ENOLCK", "ENOSYS", "ENOTEMPTY", "ELOOP",
];

/// Of those above, which are met more often.
const LATER: &[(u32, &str)] = &[
    (42, "ENOMSG"), (61, "ENODATA"), (62, "ETIME"), (71, "EPROTO"), (75, "EOVERFLOW"), (84, "EILSEQ"), (88, "ENOTSOCK"),
    (89, "EDESTADDRREQ"), (90, "EMSGSIZE"), (91, "EPROTOTYPE"), (92, "ENOPROTOOPT"), (93, "EPROTONOSUPPORT"),
    (95, "EOPNOTSUPP"), (97, "EAFNOSUPPORT"), (98, "EADDRINUSE"), (99, "EADDRNOTAVAIL"), (100, "ENETDOWN"),
    (101, "ENETUNREACH"), (103, "ECONNABORTED"), (104, "ECONNRESET"), (105, "ENOBUFS"), (106, "EISCONN"),
    (107, "ENOTCONN"), (110, "ETIMEDOUT"), (111, "ECONNREFUSED"), (112, "EHOSTDOWN"), (113, "EHOSTUNREACH"),
    (114, "EALREADY"), (115, "EINPROGRESS"), (116, "ESTALE"), (122, "EDQUOT"), (125, "ECANCELED"), (129, "EKEYREJECTED"),
    (130, "EOWNERDEAD"), (512, "ERESTARTSYS"), (513, "ERESTARTNOINTR"), (514, "ERESTARTNOHAND"),
    (516, "ERESTART_RESTARTBLOCK"),
];

/// The name of an error number; the number itself where it has none.
pub fn name(errno: u32) -> String {
    let early = NAMES.get(errno as usize).filter(|name| !name.is_empty());
    let name = early.or_else(|| LATER.iter().find(|(number, _)| *number == errno).map(|(_, name)| name));
    name.map_or_else(|| errno.to_string(), |name| (*name).to_owned())
}

//! The names of DNS types and answer codes (<https://www.iana.org/assignments/dns-parameters>).

use std::borrow::Cow;

const TYPES: [(u16, &str); 21] = [
    (1, "A"),
    (2, "NS"),
    (5, "CNAME"),
    (6, "SOA"),
    (12, "PTR"),
    (13, "HINFO"),
    (15, "MX"),
    (16, "TXT"),
    (28, "AAAA"),
    (33, "SRV"),
    (35, "NAPTR"),
    (39, "DNAME"),
    (43, "DS"),
    (46, "RRSIG"),
    (47, "NSEC"),
    (48, "DNSKEY"),
    (52, "TLSA"),
    (64, "SVCB"),
    (65, "HTTPS"),
    (255, "ANY"),
    (257, "CAA"),
];
const CODES: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH",
    "NOTZONE",
];

pub(super) fn type_name(kind: u16) -> Cow<'static, str> {
    let known = TYPES.iter().find(|(number, _)| *number == kind);
    known.map_or_else(|| format!("TYPE{kind}").into(), |(_, name)| (*name).into())
}

pub(super) fn code_name(code: u8) -> Cow<'static, str> {
    CODES.get(usize::from(code)).map_or_else(|| format!("RCODE{code}").into(), |name| (*name).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_numbers_have_a_name() {
        assert_eq!([1, 28, 99].map(type_name), ["A", "AAAA", "TYPE99"]);
        assert_eq!([0, 3, 5, 15].map(code_name), ["NOERROR", "NXDOMAIN", "REFUSED", "RCODE15"]);
    }
}

//! A gRPC call through curl (grpc/grpc, doc/PROTOCOL-HTTP2.md): its request, and parsing of the answer.

use crate::engine::curl::{Curl, decoded};

/// The answer to a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrpcReply {
    /// The HTTP status code; 0 if there was none.
    pub http: u16,
    /// `grpc-status`.
    pub status: Option<u32>,
    /// `grpc-message`.
    pub message: String,
    /// Whether the server sent details of the failure, such as when to retry.
    pub has_details: bool,
    /// The message, without its prefix.
    pub body: Vec<u8>,
}

/// Returns a message with its prefix.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], message].concat()
}

/// Returns an HTTP/2 call; the caller adds the body. Its standard output is parsed by [`answer`].
pub fn call(curl: Curl, is_plain: bool) -> Curl {
    let curl = if is_plain { curl.flag("http2-prior-knowledge") } else { curl.flag("http2") };
    curl.option("header", "Content-Type: application/grpc").option("header", "TE: trailers").option("dump-header", "-")
}

/// Parses curl's output: headers, the body, and the trailers.
pub fn answer(mut bytes: &[u8]) -> GrpcReply {
    let mut answer = GrpcReply::default();
    while bytes.starts_with(b"HTTP/") {
        let end = memchr::memmem::find(bytes, b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        answer.http = head.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        answer.fields(&head);
        bytes = &bytes[end..];
    }
    if let [0, a, b, c, d, rest @ ..] = bytes {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let (body, rest) = rest.split_at(length.min(rest.len()));
        answer.body = body.to_vec();
        bytes = rest;
    }
    answer.fields(&String::from_utf8_lossy(bytes));
    answer
}

impl GrpcReply {
    fn fields(&mut self, text: &str) {
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            match &*name.to_ascii_lowercase() {
                "grpc-status" => self.status = value.trim().parse().ok(),
                "grpc-message" => self.message = decoded(value.trim()),
                "grpc-status-details-bin" => self.has_details = true,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_apart_wherever_its_status_is() {
        let head = b"HTTP/2 200 \r\ncontent-type: application/grpc\r\n\r\n";
        let trailers = b"grpc-status: 8\r\nGrpc-Message: too%20large\r\ngrpc-status-details-bin: AA\r\n\r\n";
        let want = GrpcReply {
            http: 200,
            status: Some(8),
            message: "too large".into(),
            has_details: true,
            body: b"\r\n\r\nabc".to_vec(),
        };
        assert_eq!(answer(&[&head[..], &framed(b"\r\n\r\nabc"), trailers].concat()), want);
        let only = [&b"HTTP/2 200 \r\n"[..], trailers].concat();
        assert_eq!(answer(&only), GrpcReply { body: Vec::new(), ..want });
        assert_eq!(answer(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 502 Bad Gateway\r\n\r\n").http, 502);
        assert_eq!(answer(b""), GrpcReply::default());
        assert_eq!(answer(b"HTTP/2 200\r\n\r\n\0\xff\xff\xff\xffab").body, b"ab", "lengths are not trusted");
    }
}

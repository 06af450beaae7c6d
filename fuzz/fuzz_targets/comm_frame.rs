//! Any bytes are a header or an error, a handshake message or nothing; what reads writes back.

#![no_main]

use bireme_comm::Secret;
use bireme_comm::frame::{HEADER, Header, MAX_STRANGER_BODY};
use bireme_comm::handshake::{Hello, Welcome};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((head, _)) = bytes.split_first_chunk::<HEADER>()
        && let Ok(header) = Header::decode(head, MAX_STRANGER_BODY)
    {
        assert!(header.length <= MAX_STRANGER_BODY as u64);
        assert_eq!(&header.encode(), head);
    }
    let (secret, nonce) = (Secret::new(b"fuzz"), [7; 32]);
    if let Some((hello, proof)) = Hello::decode(bytes) {
        // The claims of what was read are those that were sent.
        let written = hello.encode(&secret, &nonce);
        assert_eq!(written[64..], bytes[64..]);
        assert_eq!(hello.is_proven(&secret, &nonce, &proof), written == bytes);
    }
    if let Some((welcome, proof)) = Welcome::decode(bytes) {
        let written = welcome.encode(&secret, &nonce, &nonce);
        assert_eq!(welcome.is_proven(&secret, &nonce, &nonce, &proof), written == bytes);
    }
});

//! Any bytes are a request, an answer or an error, of servers and of stages; what reads writes back.

#![no_main]

use bireme_comm::Body;
use bireme_ps::heter;
use bireme_ps::message::{Answer, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((number, body)) = bytes.split_first() else { return };
    // Bodies arrive aligned.
    let body = Body::copy_of(body);
    if let Ok(request) = Request::decode(u16::from(*number), &body) {
        let written = Body::copy_of(&request.encode().parts().concat());
        let again = Request::decode(request.method(), &written).expect("what is written is read");
        // Numbers that are none are unlike themselves.
        assert_eq!(format!("{again:?}"), format!("{request:?}"));
    }
    if let Ok(answer) = Answer::decode(&body) {
        let written = Body::copy_of(&answer.encode().parts().concat());
        let again = Answer::decode(&written).expect("what is written is read");
        assert_eq!(format!("{again:?}"), format!("{answer:?}"));
    }
    heter::read_twice(u16::from(*number), &body);
});

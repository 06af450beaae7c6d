//! The time of day in log lines, as Python's `logging` and Paddle's executor write it.

use std::mem::MaybeUninit;
use std::time::{SystemTime, UNIX_EPOCH};

/// `2026-11-15 06:09:36` in the zone of this machine, and milliseconds.
pub fn now() -> (String, u32) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = libc::time_t::try_from(since.as_secs()).unwrap_or_default();
    let mut broken = MaybeUninit::<libc::tm>::zeroed();
    #[expect(unsafe_code, reason = "the standard library does not know time zones")]
    // SAFETY: both pointers are valid for the call, and a `tm` of zeros is one, should it fail.
    let time = unsafe {
        libc::localtime_r(&seconds, broken.as_mut_ptr());
        broken.assume_init()
    };
    let text = format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
        time.tm_year + 1900,
        time.tm_mon + 1,
        time.tm_mday,
        time.tm_hour,
        time.tm_min,
        time.tm_sec
    );
    (text, since.subsec_millis())
}

/// Seconds since 1970.
pub fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_time_has_the_form_of_pythons_logs() {
        let (now, millis) = super::now();
        let shape: String = now.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00 00:00:00");
        assert!(now.as_str() > "2024" && millis < 1000);
    }
}

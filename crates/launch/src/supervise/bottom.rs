//! Lines that stay at the bottom of a terminal while others pass above them.
//!
//! Only texts are made here, each to be written at once: a line that is taken away and drawn again
//! in one write does not flicker. The cursor rests at the end of the last line.

use std::os::fd::AsFd;

/// Width of a terminal that does not say.
const USUAL_WIDTH: usize = 80;

/// What is at the bottom now.
#[derive(Debug, Default)]
pub(super) struct Bottom {
    /// As they were written, so that they can be taken away.
    shown: Vec<String>,
    /// As they are meant.
    texts: Vec<String>,
}

impl Bottom {
    /// The text that puts these lines into the place of those before.
    pub(super) fn replace(&mut self, texts: &[String], width: usize) -> String {
        let erased = self.erase(width);
        self.texts = texts.to_vec();
        erased + &self.draw(width)
    }

    /// The text that takes the lines away, for something to be written in their place.
    pub(super) fn erase(&mut self, width: usize) -> String {
        // A terminal that became narrower since has broken them into several rows.
        let rows = |line: &String| line.chars().count().max(1).div_ceil(width.max(1));
        let rows: usize = self.shown.drain(..).map(|line| rows(&line)).sum();
        match rows {
            0 => String::new(),
            1 => "\r\x1b[J".to_owned(),
            rows => format!("\r\x1b[{}A\x1b[J", rows - 1),
        }
    }

    /// The text that brings them back.
    pub(super) fn draw(&mut self, width: usize) -> String {
        // The last column stays free: terminals differ in what they do when it is written to.
        let cut = |text: &String| text.trim_end().chars().take(width.saturating_sub(1)).collect();
        self.shown = self.texts.iter().map(cut).collect();
        self.shown.join("\r\n")
    }
}

/// The columns of a terminal.
pub(super) fn width(terminal: impl AsFd) -> usize {
    match rustix::termios::tcgetwinsize(terminal) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => USUAL_WIDTH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_replaced_and_taken_away_as_they_lie_on_the_terminal() {
        let mut bottom = Bottom::default();
        assert_eq!(bottom.erase(80), "");
        let texts = ["servers  1 running".to_owned(), "workers  2 – 3".to_owned()];
        assert_eq!(bottom.replace(&texts, 12), "servers  1 \r\nworkers  2 ");
        assert_eq!(bottom.replace(&texts[1..], 80), "\r\x1b[1A\x1b[Jworkers  2 – 3");
        // Fourteen characters are three rows of five columns.
        assert_eq!(bottom.erase(5), "\r\x1b[2A\x1b[J");
        assert_eq!(bottom.draw(5), "work");
        assert_eq!(bottom.replace(&[], 5), "\r\x1b[J");
        assert_eq!(bottom.erase(5), "");
    }
}

//! What a text must be shown as, found the slow and obvious way: what tests and fuzzers compare with.

use super::{OMISSION_ROOM, Shown, units};

/// The same as [`super::show_bytes`], from the whole stream.
pub(crate) fn reference(bytes: &[u8], limit: usize) -> Shown {
    let all: Vec<(String, usize, bool)> = units(bytes)
        .map(|unit| {
            let mut text = String::new();
            let changed = unit.push(&mut text);
            (text, unit.raw_len(), changed)
        })
        .collect();
    let total: usize = all.iter().map(|u| u.0.len()).sum();
    let collect = |units: &[(String, usize, bool)]| {
        (
            units.iter().map(|u| u.0.as_str()).collect::<String>(),
            units.iter().map(|u| u.1 as u64).sum::<u64>(),
            units.iter().filter(|u| u.2).count() as u64,
        )
    };
    let len = bytes.len() as u64;
    if total <= limit {
        let (head, _, escaped) = collect(&all);
        return Shown {
            head,
            tail: None,
            bytes: len,
            omitted: 0,
            escaped,
        };
    }
    let room = limit.saturating_sub(OMISSION_ROOM);
    let (head_room, tail_room) = (room / 2, room - room / 2);
    let text_len = |units: &[(String, usize, bool)]| units.iter().map(|u| u.0.len()).sum::<usize>();
    let head_end = (0..=all.len())
        .rev()
        .find(|&n| text_len(&all[..n]) <= head_room)
        .unwrap_or_default();
    let tail_start = (0..=all.len())
        .find(|&n| text_len(&all[n..]) <= tail_room)
        .unwrap_or_default();
    let (head, head_raw, head_escaped) = collect(&all[..head_end]);
    let (tail, tail_raw, tail_escaped) = collect(&all[tail_start..]);
    Shown {
        head,
        tail: Some(tail),
        bytes: len,
        omitted: len - head_raw - tail_raw,
        escaped: head_escaped + tail_escaped,
    }
}

use futures_util::FutureExt as _;
use futures_util::io::Cursor;
use proptest::prelude::*;

use super::*;
use crate::limits::{MAX_REPLY, MAX_REQUEST};
use crate::message::{Entry, EntryKind, FromRun, Request, RunId};

/// Everything here is in memory: no future may ever wait.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("does not wait")
}

fn read_all(bytes: &[u8], max_control: usize) -> Result<Vec<Frame>, FrameError> {
    let mut reader = FrameReader::new(Cursor::new(bytes), max_control);
    let mut frames = Vec::new();
    while let Some(frame) = now(reader.next())? {
        frames.push(frame);
    }
    Ok(frames)
}

#[test]
fn a_claimed_length_above_the_bound_is_refused_before_anything_is_allocated() {
    let error = read_all(&[2, 0xff, 0xff, 0xff, 0xff], MAX_REPLY).unwrap_err();
    assert!(matches!(
        error,
        FrameError::TooLarge {
            limit: MAX_DATA,
            ..
        }
    ));
    let error = read_all(&[1, 0, 0, 0x40, 1], MAX_REPLY).unwrap_err();
    assert!(matches!(
        error,
        FrameError::TooLarge {
            limit: MAX_REPLY,
            ..
        }
    ));
}

#[test]
fn an_unknown_kind_is_refused() {
    assert!(matches!(
        read_all(&[9, 0, 0, 0, 0], MAX_REPLY),
        Err(FrameError::Kind)
    ));
}

#[test]
fn an_end_inside_a_frame_is_told_from_an_end_between_frames() {
    assert!(read_all(&[], MAX_REPLY).unwrap().is_empty());
    assert!(matches!(
        read_all(&[2, 0], MAX_REPLY),
        Err(FrameError::Truncated)
    ));
    assert!(matches!(
        read_all(&[2, 0, 0, 0, 2, 7], MAX_REPLY),
        Err(FrameError::Truncated)
    ));
}

#[test]
fn a_message_with_bytes_behind_it_is_malformed() {
    let mut bytes = Vec::new();
    now(FrameWriter::new(&mut bytes, MAX_REPLY).send(&RunId(7))).unwrap();
    let mut frame = read_all(&bytes, MAX_REPLY).unwrap().remove(0);
    assert_eq!(frame.message::<RunId>().unwrap(), RunId(7));
    frame.payload.push(0);
    assert!(matches!(frame.message::<RunId>(), Err(FrameError::Message)));
}

#[test]
fn a_message_above_the_bound_is_not_sent() {
    let mut bytes = Vec::new();
    let error = now(FrameWriter::new(&mut bytes, 8).send(&vec![0_u8; 9])).unwrap_err();
    assert!(matches!(error, FrameError::TooLarge { limit: 8, .. }));
    assert!(bytes.is_empty());
}

#[test]
fn space_is_sent_without_being_copied_by_the_caller() {
    let mut bytes = Vec::new();
    let mut writer = FrameWriter::new(&mut bytes, MAX_REPLY);
    writer.space()[..3].copy_from_slice(b"abc");
    now(writer.send_space(Kind::Stdout, 3)).unwrap();
    assert!(matches!(
        now(writer.send_space(Kind::Stdout, MAX_DATA + 1)),
        Err(FrameError::TooLarge { .. })
    ));
    assert_eq!(bytes, b"\x03\x00\x00\x00\x03abc");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic_nor_exceed_the_bound(
        bytes in proptest::collection::vec(any::<u8>(), 0..4096),
        max_control in 0_usize..2048,
    ) {
        let mut reader = FrameReader::new(Cursor::new(&bytes), max_control);
        while let Ok(Some(frame)) = now(reader.next()) {
            prop_assert!(frame.payload.capacity() <= MAX_DATA.max(max_control));
            let _ = frame.message::<Request>();
            let _ = frame.message::<FromRun>();
        }
    }

    #[test]
    fn arbitrary_control_payloads_never_panic_the_decoder(
        payload in proptest::collection::vec(any::<u8>(), 0..512),
    ) {
        let frame = Frame { kind: Kind::Control, payload };
        let _ = frame.message::<Request>();
        let _ = frame.message::<FromRun>();
        let _ = frame.message::<Result<Entry, crate::message::GuestError>>();
    }

    #[test]
    fn what_is_written_is_read_back(
        path in proptest::collection::vec(any::<u8>(), 0..300),
        length in 0_usize..200_000,
        fill in any::<u8>(),
        modified_ms in any::<i64>(),
        bytes in any::<u64>(),
    ) {
        let data = vec![fill; length];
        let entry = FromRun::NewFile(Entry { path, kind: EntryKind::File, bytes, modified_ms });
        let mut wire = Vec::new();
        let mut writer = FrameWriter::new(&mut wire, MAX_REQUEST);
        now(writer.send(&entry)).unwrap();
        now(writer.send_bytes(Kind::Data, &data)).unwrap();
        let frames = read_all(&wire, MAX_REQUEST).unwrap();
        prop_assert_eq!(frames[0].message::<FromRun>().unwrap(), entry);
        let read: Vec<u8> = frames[1..].iter().flat_map(|frame| &frame.payload).copied().collect();
        prop_assert_eq!(read, data);
    }
}

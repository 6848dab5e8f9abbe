//! Windows status codes (MS-ERREF §2.3): names of the most common ones.

use crate::Words;
use std::borrow::Cow;

pub(super) const SUCCESS: u32 = 0;
pub(super) const PENDING: u32 = 0x103;
pub(super) const MORE_PROCESSING_REQUIRED: u32 = 0xc000_0016;

/// Names, sorted by code.
const NAMES: &[(u32, &str)] = &[
    (SUCCESS, "SUCCESS"),
    (PENDING, "PENDING"),
    (0x0000_010b, "NOTIFY_CLEANUP"),
    (0x0000_010c, "NOTIFY_ENUM_DIR"),
    (0x8000_0005, "BUFFER_OVERFLOW"),
    (0x8000_0006, "NO_MORE_FILES"),
    (0x8000_002d, "STOPPED_ON_SYMLINK"),
    (0xc000_0001, "UNSUCCESSFUL"),
    (0xc000_0002, "NOT_IMPLEMENTED"),
    (0xc000_0008, "INVALID_HANDLE"),
    (0xc000_000d, "INVALID_PARAMETER"),
    (0xc000_000f, "NO_SUCH_FILE"),
    (0xc000_0010, "INVALID_DEVICE_REQUEST"),
    (0xc000_0011, "END_OF_FILE"),
    (MORE_PROCESSING_REQUIRED, "MORE_PROCESSING_REQUIRED"),
    (0xc000_0022, "ACCESS_DENIED"),
    (0xc000_0023, "BUFFER_TOO_SMALL"),
    (0xc000_0033, "OBJECT_NAME_INVALID"),
    (0xc000_0034, "OBJECT_NAME_NOT_FOUND"),
    (0xc000_0035, "OBJECT_NAME_COLLISION"),
    (0xc000_003a, "OBJECT_PATH_NOT_FOUND"),
    (0xc000_003b, "OBJECT_PATH_SYNTAX_BAD"),
    (0xc000_0043, "SHARING_VIOLATION"),
    (0xc000_0054, "FILE_LOCK_CONFLICT"),
    (0xc000_0056, "DELETE_PENDING"),
    (0xc000_0064, "NO_SUCH_USER"),
    (0xc000_006a, "WRONG_PASSWORD"),
    (0xc000_006d, "LOGON_FAILURE"),
    (0xc000_006e, "ACCOUNT_RESTRICTION"),
    (0xc000_006f, "INVALID_LOGON_HOURS"),
    (0xc000_0070, "INVALID_WORKSTATION"),
    (0xc000_0071, "PASSWORD_EXPIRED"),
    (0xc000_0072, "ACCOUNT_DISABLED"),
    (0xc000_007f, "DISK_FULL"),
    (0xc000_009a, "INSUFFICIENT_RESOURCES"),
    (0xc000_00ac, "PIPE_NOT_AVAILABLE"),
    (0xc000_00ba, "FILE_IS_A_DIRECTORY"),
    (0xc000_00bb, "NOT_SUPPORTED"),
    (0xc000_00c9, "NETWORK_NAME_DELETED"),
    (0xc000_00ca, "NETWORK_ACCESS_DENIED"),
    (0xc000_00cc, "BAD_NETWORK_NAME"),
    (0xc000_00d0, "REQUEST_NOT_ACCEPTED"),
    (0xc000_0101, "DIRECTORY_NOT_EMPTY"),
    (0xc000_0103, "NOT_A_DIRECTORY"),
    (0xc000_0120, "CANCELLED"),
    (0xc000_0121, "CANNOT_DELETE"),
    (0xc000_0128, "FILE_CLOSED"),
    (0xc000_015b, "LOGON_TYPE_NOT_GRANTED"),
    (0xc000_0193, "ACCOUNT_EXPIRED"),
    (0xc000_0203, "USER_SESSION_DELETED"),
    (0xc000_0224, "PASSWORD_MUST_CHANGE"),
    (0xc000_0234, "ACCOUNT_LOCKED_OUT"),
    (0xc000_0257, "PATH_NOT_COVERED"),
    (0xc000_035c, "NETWORK_SESSION_EXPIRED"),
];

/// The name of a code, `ACCESS_DENIED`; the number if the code has no name here.
pub(super) fn name(code: u32) -> Cow<'static, str> {
    match NAMES.binary_search_by_key(&code, |entry| entry.0) {
        Ok(at) => NAMES[at].1.into(),
        Err(_) => format!("{code:#010x}").into(),
    }
}

/// Names of status codes.
pub(super) const WORDS: Words =
    Words { list: || NAMES.iter().map(|entry| entry.1).collect(), others: &["0x"] };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_have_names() {
        assert!(NAMES.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!((name(0xc000_0022), name(7)), ("ACCESS_DENIED".into(), "0x00000007".into()));
        assert!(WORDS.may_be("SUCCESS") && WORDS.may_be("0x00000007") && !WORDS.may_be("STATUS_SUCCESS"));
    }
}

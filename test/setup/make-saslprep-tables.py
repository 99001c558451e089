#!/usr/bin/env python3
"""Writes include/auth/saslprep_tables.def: what SASLprep needs to know of Unicode.

Usage: test/setup/make-saslprep-tables.py >include/auth/saslprep_tables.def

Only the characters of Unicode 3.2 matter, for RFC 3454 refuses all others; what is
said of them here has not changed in any version since 4.1.

A table is a string of numbers.  A number is its groups of five bits, lowest first,
each as one digit of the base64 alphabet; 32 is added to all digits but the last.
Signed numbers have their sign in the lowest bit.
"""

import stringprep
import sys
import unicodedata

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
CODES = range(0x110000)


def number(value):
    text = ""
    while value >= 32:
        text += DIGITS[value % 32 + 32]
        value //= 32
    return text + DIGITS[value]


def signed(value):
    return number(value * 2 if value >= 0 else -value * 2 + 1)


def is_refused(code):
    char = chr(code)
    return (
        stringprep.in_table_a1(char)
        or stringprep.in_table_c12(char)
        or stringprep.in_table_c21_c22(char)
        or stringprep.in_table_c3(char)
        or stringprep.in_table_c4(char)
        or stringprep.in_table_c5(char)
        or stringprep.in_table_c6(char)
        or stringprep.in_table_c7(char)
        or stringprep.in_table_c8(char)
        or stringprep.in_table_c9(char)
    )


REFUSED = [is_refused(code) for code in CODES]


def ranges(value_of):
    """[first, last, value] of codes whose value is not 0; None fits any value."""
    rows = []
    current = None
    for code in CODES:
        value = value_of(code)
        if value is None:
            continue
        if current and current[2] == value:
            current[1] = code
        else:
            current = [code, code, value]
            if value:
                rows.append(current)
    return rows


def range_table(value_of):
    """Count; then per row: codes skipped, codes in it less one, value."""
    rows = ranges(value_of)
    text = number(len(rows))
    at = 0
    for first, last, value in rows:
        text += number(first - at) + number(last - first) + number(value)
        at = last + 1
    return text


def allowed_only(test):
    return lambda code: None if REFUSED[code] else int(test(chr(code)))


def decomposition(code):
    """The codes that replace this one (one step), and whether they compose to it again."""
    if REFUSED[code] or 0xAC00 <= code <= 0xD7A3:
        return [], False
    parts = unicodedata.decomposition(chr(code)).split()
    is_canonical = bool(parts) and not parts[0].startswith("<")
    codes = [int(part, 16) for part in parts if not part.startswith("<")]
    text = "".join(map(chr, codes))
    composes = (
        is_canonical
        and len(codes) == 2
        and unicodedata.normalize("NFC", text) == chr(code)
    )
    return codes, composes


def mapping_table():
    """Count, count of parts; then per row: codes skipped, twice the number of parts
    plus 1 if they compose again, and each part less the same part of the row before.
    """
    text = ""
    count = part_count = at = 0
    before = [0] * 20
    for code in CODES:
        parts, composes = decomposition(code)
        if not parts:
            continue
        text += number(code - at) + number(2 * len(parts) + composes)
        for i, part in enumerate(parts):
            text += signed(part - before[i])
            before[i] = part
        at = code + 1
        count += 1
        part_count += len(parts)
    return number(count) + number(part_count) + text


def write(name, comment, text):
    print(f"\n/* {comment} */\nSASLPREP_TABLE({name},")
    lines = [text[i : i + 80] for i in range(0, len(text), 80)]
    print("\n".join(f'    "{line}"' for line in lines) + ")")


def main():
    if sys.argv[1:]:
        sys.exit(__doc__)
    print("/* Written by test/setup/make-saslprep-tables.py, which explains it. */")
    write(
        "space_table",
        "RFC 3454 C.1.2: becomes a space.",
        range_table(lambda code: int(stringprep.in_table_c12(chr(code)))),
    )
    write(
        "nothing_table",
        "RFC 3454 B.1: is left out.",
        range_table(lambda code: int(stringprep.in_table_b1(chr(code)))),
    )
    write(
        "refused_table",
        "RFC 3454 A.1, C.1.2 and C.2.1 to C.9: unassigned and prohibited.",
        range_table(lambda code: int(REFUSED[code])),
    )
    write(
        "right_table",
        "RFC 3454 D.1: written from right to left.",
        range_table(allowed_only(stringprep.in_table_d1)),
    )
    write(
        "left_table",
        "RFC 3454 D.2: written from left to right.",
        range_table(allowed_only(stringprep.in_table_d2)),
    )
    write(
        "class_table",
        "Canonical combining classes.",
        range_table(allowed_only(unicodedata.combining)),
    )
    write(
        "mapping_table",
        "Decompositions, canonical and compatible, but those of Hangul.",
        mapping_table(),
    )


main()

// JSON text to a flat array of nodes in document order, and the byte work around it.
// Nothing here recurses, throws or keeps a pointer to the caller's memory after it returns.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Offsets are 32 bits wide and depths 16, so these bounds apply to any limits that a caller requests.
#define CSJ_MAXIMUM_BYTES 1073741824u
#define CSJ_MAXIMUM_DEPTH 1024u

enum csj_kind {
    CSJ_OBJECT = 0,
    CSJ_ARRAY = 1,
    CSJ_STRING = 2,
    CSJ_NUMBER = 3,
    CSJ_TRUE = 4,
    CSJ_FALSE = 5,
    CSJ_NULL = 6,
    CSJ_NAME = 7,
};

enum csj_flag {
    CSJ_HAS_ESCAPES = 1,  // strings and names
    CSJ_IS_UUID = 2,      // strings whose content is 8-4-4-4-12 hexadecimal digits in either case
    CSJ_IS_INTEGER = 4,   // numbers without fraction and exponent
};

// A value or a member name. A name's value is the node after it.
typedef struct {
    uint32_t start;   // offset of the first byte, a string's opening quote included
    uint32_t end;     // offset after the last byte
    uint32_t next;    // index of the first node after this subtree
    uint16_t height;  // levels of containers in this subtree: scalars 0, [] 1, [[]] 2
    uint8_t kind;
    uint8_t flags;
} csj_node;

enum csj_defect_kind {
    CSJ_DUPLICATE_MEMBER = 0,     // node: the later name
    CSJ_NUL_CHARACTER = 1,        // node: the string or name
    CSJ_LONE_SURROGATE = 2,       // node: the string or name
    CSJ_NUMBER_OUT_OF_RANGE = 3,  // node: the number
};

// A part that is JSON by its grammar but can't be stored or understood in one way only.
typedef struct {
    uint32_t node;
    uint32_t kind;
} csj_defect;

enum csj_error {
    CSJ_OK = 0,
    CSJ_TOO_LONG = 1,
    CSJ_TOO_DEEP = 2,
    CSJ_TOO_MANY_NODES = 3,
    CSJ_EMPTY = 4,
    CSJ_INVALID_UTF8 = 5,
    CSJ_CONTROL_CHARACTER = 6,
    CSJ_UNTERMINATED_STRING = 7,
    CSJ_UNEXPECTED_END = 8,
    CSJ_EXPECTED_VALUE = 9,
    CSJ_EXPECTED_NAME = 10,
    CSJ_EXPECTED_COLON = 11,
    CSJ_EXPECTED_COMMA_OR_END = 12,
    CSJ_INVALID_LITERAL = 13,
    CSJ_INVALID_NUMBER = 14,
    CSJ_INVALID_ESCAPE = 15,
    CSJ_TRAILING_CONTENT = 16,
    CSJ_OUT_OF_MEMORY = 17,
};

typedef struct {
    uint32_t bytes;
    uint32_t depth;
    uint32_t nodes;
} csj_limits;

typedef struct {
    csj_node *nodes;
    csj_defect *defects;  // in the order of their nodes; NULL without defects
    uint32_t node_count;
    uint32_t defect_count;
    uint32_t error;         // a csj_error; the arrays are NULL unless it is CSJ_OK
    uint32_t error_offset;  // the offset of the invalid byte
} csj_result;

// Parses the whole text (RFC 8259). Time is linear in its length, memory in its nodes. Free the result.
csj_result csj_parse(const uint8_t *text, size_t count, csj_limits limits);
void csj_free(csj_node *nodes, csj_defect *defects);

// These take the content of a string that csj_parse accepted, without its quotes, and write at most `count` bytes.
// A lone surrogate is written as three bytes (WTF-8) by the first, and stays an escape in the second.
size_t csj_unescape(const uint8_t *content, size_t count, uint8_t *out);
size_t csj_normalize_escapes(const uint8_t *content, size_t count, uint8_t *out);

// Reads 36 bytes in either case; false if they don't have the shape of a UUID.
bool csj_parse_uuid(const uint8_t *text, uint8_t *out);
// Writes 36 bytes, in lower case.
void csj_format_uuid(const uint8_t *uuid, uint8_t *out);

#ifdef __cplusplus
}
#endif

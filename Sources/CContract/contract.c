#include "contract.h"

// SwiftPM would embed the file as an array literal of Swift, which takes its compiler the better part of a minute.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const uint8_t bytes[] = {
#embed "openapi.json"
};

const uint8_t *contract_bytes(void) { return bytes; }

size_t contract_length(void) { return sizeof bytes; }

#ifndef CONTRACT_H
#define CONTRACT_H

#include <stddef.h>
#include <stdint.h>

/// The first byte of `openapi.json`, which is part of the program.
const uint8_t *contract_bytes(void);

/// How many bytes `openapi.json` has.
size_t contract_length(void);

#endif

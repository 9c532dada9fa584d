#pragma once
int csimdjson_placeholder(void);

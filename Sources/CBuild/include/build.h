#ifndef BUILD_H
#define BUILD_H

/// The commit of the sources; `unknown` unless `BUILD_COMMIT` was set when the program was built.
const char *build_commit(void);

#endif

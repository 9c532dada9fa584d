import Foundation
package import Glibc

/// Starts a child in a separate session, so that ctrl-C in the terminal reaches the tests first, with the usual
/// signals.
///
/// - Parameters:
///   - environment: nil inherits this process's.
///   - last: the last of its descriptors.
///   - files: configures its descriptors; it has no others.
/// - Returns: the process id; the caller waits for it.
package func spawn(
    _ command: [String],
    environment: [String: String]? = nil,
    last: Int32 = 2,
    files: (inout posix_spawn_file_actions_t) -> Void
) throws -> pid_t {
    var actions = posix_spawn_file_actions_t()
    var attributes = posix_spawnattr_t()
    posix_spawn_file_actions_init(&actions)
    posix_spawnattr_init(&attributes)
    defer {
        posix_spawn_file_actions_destroy(&actions)
        posix_spawnattr_destroy(&attributes)
    }
    files(&actions)
    // A socket that a child also holds stays open when we close it. Closing a descriptor that is not open does no harm.
    for descriptor in (last + 1)..<firstUnusedDescriptor() { posix_spawn_file_actions_addclose(&actions, descriptor) }
    let setsid: Int16 = 0x80
    posix_spawnattr_setflags(&attributes, setsid | Int16(POSIX_SPAWN_SETSIGDEF) | Int16(POSIX_SPAWN_SETSIGMASK))
    var none = sigset_t()
    var all = sigset_t()
    sigemptyset(&none)
    sigfillset(&all)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setsigdefault(&attributes, &all)
    let arguments = command.map { strdup($0) }
    let variables = environment?.map { strdup("\($0.key)=\($0.value)") }
    defer { for text in arguments + (variables ?? []) { free(text) } }
    var pid = pid_t()
    let failure =
        if let variables {
            posix_spawnp(&pid, command[0], &actions, &attributes, arguments + [nil], variables + [nil])
        } else {
            posix_spawnp(&pid, command[0], &actions, &attributes, arguments + [nil], environ)
        }
    guard failure == 0 else { throw TestCluster.Failure(description: "\(command[0]): error \(failure)") }
    return pid
}

/// Above all open descriptors, and above those that other threads are about to open.
private func firstUnusedDescriptor() -> Int32 {
    let open = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
    return (open.compactMap(Int32.init).max() ?? 1_024) + 128
}

import Foundation

/// The source of a user's token. A real app gets it from its identity provider.
enum TokenSource: Sendable {
    case file(String)
    case environment(String)

    func read() throws -> String {
        switch self {
        case .file(let path):
            return try String(contentsOfFile: path, encoding: .utf8).trimmingCharacters(in: .whitespacesAndNewlines)
        case .environment(let variable):
            guard let token = ProcessInfo.processInfo.environment[variable], !token.isEmpty else {
                throw Complaint("no token: specify a file with --token-file, or set \(variable)")
            }
            return token
        }
    }
}

import Foundation

/// The source of a user's token. A real app gets it from its identity provider.
enum TokenSource: Sendable {
    case file(String)
    case environment(String)

    /// The id of the token's user, if it is a UUID.
    func user() throws -> UUID? {
        struct Claims: Decodable { let sub: String }
        let parts = try read().split(separator: ".")
        guard parts.count == 3 else { return nil }
        let base64 = parts[1].replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        let padding = String(repeating: "=", count: (4 - base64.count % 4) % 4)
        guard let json = Data(base64Encoded: base64 + padding) else { return nil }
        return UUID(uuidString: try JSONDecoder().decode(Claims.self, from: json).sub)
    }

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

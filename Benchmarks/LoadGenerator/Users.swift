import Crypto
import Glibc

/// A user and its token.
struct User {
    let id: UUIDBits
    let token: String

    /// Users whose ids count up, as `Benchmarks/ceiling.pgb` generates them. Organizations count from 1, and the users
    /// of each organization count from 1. The organizations take turns.
    static func numbered(organizations: Int, users: Int, secret: String) -> [User] {
        // runs on the same day send the same tokens, as clients do until their tokens expire
        let day = 86_400
        let signer = TokenSigner(secret: secret, expires: (time(nil) / day + 2) * day)
        var all: [User] = []
        all.reserveCapacity(organizations * users)
        for user in 1...users {
            for organization in 1...organizations {
                let userText = "00000000-0000-4000-9000-\(padded(organization * 1000 + user))"
                let organizationText = "00000000-0000-4000-8000-\(padded(organization))"
                guard let id = UUIDBits(userText) else { continue }
                all.append(User(id: id, token: signer.token(organization: organizationText, user: userText)))
            }
        }
        return all
    }

    /// Users from a file that has, in each line, an organization, a user, and a token.
    static func read(from path: String) throws(Failure) -> [User] {
        var all: [User] = []
        for (index, line) in try readFile(path).split(separator: "\n").enumerated() {
            let words = line.split(separator: " ")
            guard words.count == 3, let id = UUIDBits(words[1]) else {
                throw Failure("\(path):\(index + 1): expected an organization, a user and a token")
            }
            all.append(User(id: id, token: String(words[2])))
        }
        guard !all.isEmpty else { throw Failure("\(path) is empty") }
        return all
    }

    private static func padded(_ number: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, 12 - digits.count)) + digits
    }
}

/// Makes HS256 tokens.
private struct TokenSigner {
    private let key: SymmetricKey
    private let expires: Int
    private let header = base64URL(#"{"alg":"HS256","typ":"JWT"}"#.utf8)

    init(secret: String, expires: Int) {
        key = SymmetricKey(data: Array(secret.utf8))
        self.expires = expires
    }

    func token(organization: String, user: String) -> String {
        let claims = base64URL(#"{"sub":"\#(user)","org":"\#(organization)","exp":\#(expires)}"#.utf8)
        let signed = "\(header).\(claims)"
        let code = HMAC<SHA256>.authenticationCode(for: Array(signed.utf8), using: key)
        return "\(signed).\(base64URL(code))"
    }
}

private func base64URL(_ bytes: some Sequence<UInt8>) -> String {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    var text: [UInt8] = []
    var bits = 0
    var held = 0
    for byte in bytes {
        held = held << 8 & 0xFFFF | Int(byte)
        bits += 8
        while bits >= 6 {
            bits -= 6
            text.append(alphabet[held >> bits & 63])
        }
    }
    if bits > 0 { text.append(alphabet[held << (6 - bits) & 63]) }
    return String(decoding: text, as: UTF8.self)
}

func readFile(_ path: String) throws(Failure) -> String {
    guard let file = fopen(path, "r") else { throw Failure("\(path) can't be read: \(Failure.systemText)") }
    defer { fclose(file) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while case let count = fread(&chunk, 1, chunk.count, file), count > 0 { bytes += chunk[..<count] }
    return String(decoding: bytes, as: UTF8.self)
}

import FoundationEssentials
import JWTKit

/// A token taken apart, before anything in it is believed.
struct TokenText {
    /// The members of the header that decide how the token is verified.
    struct Header: Decodable {
        var alg: String
        var kid: String?
        /// Extensions that the reader must understand; we understand none.
        var crit: [String]?
    }

    let header: Header
    /// Header, dot and payload, as they were signed.
    let signed: ArraySlice<UInt8>
    let payload: [UInt8]
    let signature: [UInt8]

    init(_ bytes: [UInt8]) throws(TokenError) {
        let dots = bytes.indices.filter { bytes[$0] == UInt8(ascii: ".") }
        guard dots.count == 2,
            let header = Base64URL.decode(bytes[..<dots[0]]),
            let payload = Base64URL.decode(bytes[(dots[0] + 1)..<dots[1]]),
            let signature = Base64URL.decode(bytes[(dots[1] + 1)...]),
            let fields = try? DefaultJWTParser().jsonDecoder.decode(Header.self, from: Data(header)),
            fields.crit == nil
        else { throw .malformed }
        self.header = fields
        self.signed = bytes[..<dots[1]]
        self.payload = payload
        self.signature = signature
    }
}

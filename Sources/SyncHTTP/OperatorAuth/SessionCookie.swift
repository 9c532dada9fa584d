package import HTTPTypes

/// The cookie of the console (RFC 6265).
///
/// Over TLS, which a proxy in front of the gateway reports, its name has the prefix that prevents other hosts from
/// setting it.
package enum SessionCookie {
    private static let name = "sluice_session"
    private static let hostName = "__Host-sluice_session"

    /// Its value; nil without one.
    package static func value(_ headers: HTTPFields) -> Substring? {
        var found: Substring?
        for field in headers[values: .cookie] {
            for pair in field.split(separator: ";") {
                let parts = Substring(pair.utf8.drop { $0 == UInt8(ascii: " ") }).split(separator: "=", maxSplits: 1)
                guard parts.count == 2 else { continue }
                if parts[0] == hostName { return parts[1] }
                if parts[0] == name { found = found ?? parts[1] }
            }
        }
        return found
    }

    /// The `Set-Cookie` field; an age of 0 removes it.
    package static func field(_ value: String, seconds: Int64, over headers: HTTPFields) -> String {
        let isSecure = headers[.xForwardedProto]?.lowercased() == "https"
        let end = "; HttpOnly; SameSite=Strict; Path=/; Max-Age=\(seconds)"
        return isSecure ? "\(hostName)=\(value); Secure\(end)" : "\(name)=\(value)\(end)"
    }
}

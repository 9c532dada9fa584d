import Foundation

/// A request to the gateway's `/v1`.
struct GatewayRequest: Sendable {
    var method = "GET"
    let path: String
    var query: [URLQueryItem] = []
    var body: JSON?
    /// Seconds for which the gateway may hold the answer.
    var wait = 0
    /// Asks for the wait in `Prefer` (RFC 7240), as pushes do; else it is a parameter of the query.
    var isWaitPreferred = false

    func urlRequest(to gateway: URL, token: String, timeout: TimeInterval) throws -> URLRequest {
        var components = URLComponents(url: gateway, resolvingAgainstBaseURL: false)
        let prefix = components?.percentEncodedPath ?? ""
        components?.percentEncodedPath = prefix + path
        var query = query
        if wait > 0, !isWaitPreferred { query.append(URLQueryItem(name: "wait", value: String(wait))) }
        components?.queryItems = query.isEmpty ? nil : query
        guard let url = components?.url else {
            throw SluiceError.configuration("\(gateway) is no address of a gateway")
        }
        var request = URLRequest(url: url, timeoutInterval: timeout + TimeInterval(wait))
        request.httpMethod = method
        request.cachePolicy = .reloadIgnoringLocalCacheData
        request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        request.setValue("application/json", forHTTPHeaderField: "Accept")
        if let body {
            request.setValue("application/json", forHTTPHeaderField: "Content-Type")
            request.httpBody = Data(body.utf8)
        }
        if wait > 0, isWaitPreferred { request.setValue("wait=\(wait)", forHTTPHeaderField: "Prefer") }
        return request
    }
}

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

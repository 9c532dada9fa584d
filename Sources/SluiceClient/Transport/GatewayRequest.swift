import Foundation

/// A request to the gateway's `/v1`.
struct GatewayRequest: Sendable {
    var method = "GET"
    let path: String
    var query: [URLQueryItem] = []
    var body: JSON?

    func urlRequest(to gateway: URL, token: String, timeout: TimeInterval) throws -> URLRequest {
        var components = URLComponents(url: gateway, resolvingAgainstBaseURL: false)
        var prefix = components?.percentEncodedPath ?? ""
        while prefix.hasSuffix("/") { prefix.removeLast() }
        components?.percentEncodedPath = prefix + path
        components?.queryItems = query.isEmpty ? nil : query
        guard let url = components?.url else {
            throw SluiceError.configuration("\(gateway) is not the address of a gateway")
        }
        var request = URLRequest(url: url, timeoutInterval: timeout)
        request.httpMethod = method
        request.cachePolicy = .reloadIgnoringLocalCacheData
        request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        request.setValue("application/json", forHTTPHeaderField: "Accept")
        if let body {
            request.setValue("application/json", forHTTPHeaderField: "Content-Type")
            request.httpBody = Data(body.utf8)
        }
        return request
    }
}

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

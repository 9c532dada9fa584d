import Foundation
public import SluiceClient

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension MockGateway {
    /// A request of a client.
    public struct Request: Sendable {
        /// The purpose of a request.
        public enum Kind: Sendable {
            /// `PUT /v1/devices/{id}`, which a client sends at each launch.
            case registration
            /// `POST /v1/mutations`
            case push
            /// `GET /v1/changes`
            case pull
            /// A person's decision about a write.
            case decision
            /// Any other request. Such requests read the state of writes.
            case reading
        }

        /// The method.
        public let method: String
        /// The path, without the query.
        public let path: String
        /// The parameters of the query.
        public let query: [String: String]
        /// The body, if it is JSON.
        public let body: JSON?
        /// The user of the token; nil for a token that ``MockGateway/token(of:)`` did not return.
        public let user: String?

        init?(_ request: URLRequest) {
            guard let url = request.url, let components = URLComponents(url: url, resolvingAgainstBaseURL: false) else {
                return nil
            }
            method = request.httpMethod ?? "GET"
            path = components.path
            query = (components.queryItems ?? []).reduce(into: [:]) { $0[$1.name] = $1.value ?? "" }
            body = request.httpBody.flatMap { try? JSON(parsing: $0) }
            user = request.value(forHTTPHeaderField: "Authorization").flatMap(Self.user)
        }

        /// The kind.
        public var kind: Kind {
            switch (method, path) {
            case ("PUT", _): .registration
            case ("POST", "/v1/mutations"): .push
            case ("GET", "/v1/changes"): .pull
            case ("POST", _): .decision
            default: .reading
            }
        }

        /// The mutations of a push.
        public var mutations: [JSON] { body?["mutations"]?.array ?? [] }

        private static func user(_ header: String) -> String? {
            let parts = header.split(separator: ".", omittingEmptySubsequences: false)
            guard parts.count == 3 else { return nil }
            var text = parts[1].replacing("-", with: "+").replacing("_", with: "/")
            text += String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
            return Data(base64Encoded: String(text)).flatMap { try? JSON(parsing: $0) }?["sub"]?.string
        }
    }

    /// The way in which a request is treated.
    public enum Reaction: Sendable {
        /// The gateway, or a proxy in front of the gateway, answers with this status and without a body.
        case status(Int, retryAfter: Int? = nil)
        /// The gateway refuses the request with problem details that contain this code.
        case problem(status: Int, code: String)
        /// The connection ends before the request arrives.
        case cutConnection
        /// The request takes effect, and the connection ends before the answer arrives.
        case lostAnswer
        /// The request takes effect, and the answer arrives late.
        case delay(Duration)
        /// The answer is this text, for example from a captive portal or another server. The request has no effect.
        case text(String)
        /// The answer is this JSON. The request has no effect.
        case json(JSON)
    }

    /// An answer.
    struct Response {
        let status: Int
        let headers: [String: String]
        let text: String

        init(status: Int, headers: [String: String] = [:], text: String = "") {
            (self.status, self.headers, self.text) = (status, headers, text)
        }

        init(status: Int = 200, _ json: JSON) { self.init(status: status, text: json.text) }
    }
}

/// The reactions that a test has specified, and the requests that the gateway has received.
struct MockScript: Sendable {
    struct Rule: Sendable {
        let reaction: MockGateway.Reaction
        let kind: MockGateway.Request.Kind?
        var times: Int
    }

    var requests: [MockGateway.Request] = []
    var rules: [Rule] = []
    var onRequest: (@Sendable (MockGateway.Request) -> MockGateway.Reaction?)?
    var onWrite: (@Sendable (JSON) -> MockGateway.Verdict?)?

    /// Returns the reaction of the first rule that applies.
    mutating func take(_ request: MockGateway.Request) -> MockGateway.Reaction? {
        guard let index = rules.firstIndex(where: { $0.times > 0 && ($0.kind ?? request.kind) == request.kind }) else {
            return nil
        }
        rules[index].times -= 1
        return rules[index].reaction
    }
}

extension JSON {
    /// Returns problem details as the gateway sends them.
    static func problem(_ status: Int, _ code: String, _ detail: String = "", _ more: [String: JSON] = [:]) -> JSON {
        let members: [String: JSON] = [
            "type": .string("urn:sluice:problem:\(code)"), "title": .string(code), "status": .integer(Int64(status)),
            "code": .string(code), "detail": .string(detail),
        ]
        return .object(members.merging(more) { $1 })
    }
}

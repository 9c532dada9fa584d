package import HTTPTypes
import SyncModel

/// Finds the route of a request. Literal paths are found in a dictionary. Templates are compared in sequence, because
/// there are few of them.
package struct RouteTable: Sendable {
    /// The result of a look-up.
    package enum Match: Sendable {
        case route(Route, parameters: [Substring])
        /// The path exists, but does not have this method. The value lists the path's methods.
        case otherMethods(String)
        case nothing
    }

    private var literal: [ByteExactString: Resource] = [:]
    private var templates: [Resource] = []
    /// The pages, by the path of the root page.
    private var trees: [ByteExactString: Route] = [:]

    /// Adds a method to a path. A segment such as `{id}` in the template matches any single segment.
    ///
    /// A path without `{` takes precedence over a matching template, so `/a/b` and `/a/{id}` can be added in any order.
    /// If two templates match, the template that was added first takes precedence. Therefore add `/a/{id}/b` before
    /// `/a/{id}/{other}`.
    package mutating func add(
        _ method: HTTPRequest.Method,
        _ template: String,
        answers mediaType: String? = "application/json",
        directly directEndpoint: Route.DirectEndpoint? = nil,
        _ endpoint: @escaping Route.Endpoint
    ) {
        let route = Route(
            method: method,
            mediaType: mediaType,
            meters: RouteMeters(route: template, method: method.rawValue),
            endpoint: endpoint,
            directEndpoint: directEndpoint
        )
        if !template.contains("{") {
            literal[template, default: Resource(template)].routes.append(route)
        } else if let index = templates.firstIndex(where: { $0.template == template }) {
            templates[index].routes.append(route)
        } else {
            templates.append(Resource(template))
            templates[templates.count - 1].routes.append(route)
        }
    }

    /// Adds pages at a path, and at all paths below it that have no other route.
    ///
    /// The endpoint's only parameter is the rest of the path, which is empty for the path itself. These paths are not
    /// part of the API, so ``names`` omits them.
    package mutating func addPages(at path: String, _ endpoint: @escaping Route.Endpoint) {
        trees[path] = Route(
            method: .get,
            mediaType: nil,
            meters: RouteMeters(route: path, method: HTTPRequest.Method.get.rawValue),
            endpoint: endpoint,
            directEndpoint: nil
        )
    }

    /// Adds `OPTIONS` to every path.
    package mutating func addOptions(_ crossOrigin: CrossOrigin) {
        for path in Array(literal.keys) { literal[path]?.addOptions(crossOrigin) }
        for index in templates.indices { templates[index].addOptions(crossOrigin) }
    }

    /// Every route as `METHOD /path/{of}/its/template`, in no particular order.
    package var names: [String] {
        (Array(literal.values) + templates).flatMap { resource in
            resource.routes.map { "\($0.method.rawValue) \(resource.template)" }
        }
    }

    /// Returns the route that can answer a request directly. Only literal paths without a query have such a route.
    package func direct(_ method: HTTPRequest.Method, _ path: String) -> Route? {
        guard method == .post, let resource = literal[path] else { return nil }
        return resource.routes.first { $0.method == method && $0.directEndpoint != nil }
    }

    /// Returns the route for a method and path. `GET` also serves `HEAD`.
    package func match(_ method: HTTPRequest.Method, _ path: String) -> Match {
        if let resource = literal[path] { return resource.match(method, parameters: []) }
        for resource in templates {
            if let parameters = resource.parameters(of: path) { return resource.match(method, parameters: parameters) }
        }
        for (root, route) in trees
        where path == root.string || root.string != "/" && path.hasPrefix(root.string + "/") {
            guard method == .get || method == .head else { return .otherMethods("GET, HEAD") }
            return .route(route, parameters: [path.dropFirst(root.string.count + 1)])
        }
        return .nothing
    }
}

/// A path and its methods.
private struct Resource: Sendable {
    package let template: String
    package let segments: [Substring]
    package var routes: [Route] = []

    package init(_ template: String) {
        self.template = template
        segments = template.split(separator: "/", omittingEmptySubsequences: false)
    }

    /// Returns the values of the placeholders in the template; nil if the path does not match.
    package func parameters(of path: String) -> [Substring]? {
        let given = path.split(separator: "/", omittingEmptySubsequences: false)
        guard given.count == segments.count else { return nil }
        var parameters: [Substring] = []
        for (segment, value) in zip(segments, given) {
            if segment.hasPrefix("{") {
                guard !value.isEmpty else { return nil }
                parameters.append(value)
            } else if segment != value {
                return nil
            }
        }
        return parameters
    }

    package mutating func addOptions(_ crossOrigin: CrossOrigin) {
        let methods = allow + ", OPTIONS"
        let route = Route(
            method: .options,
            mediaType: nil,
            meters: RouteMeters(route: template, method: "OPTIONS"),
            endpoint: { crossOrigin.options(methods, $0) },
            directEndpoint: nil
        )
        routes.append(route)
    }

    package func match(_ method: HTTPRequest.Method, parameters: [Substring]) -> RouteTable.Match {
        let wanted = method == .head ? .get : method
        guard let route = routes.first(where: { $0.method == wanted }) else { return .otherMethods(allow) }
        return .route(route, parameters: parameters)
    }

    /// The value of `Allow`.
    package var allow: String {
        let methods = routes.map(\.method.rawValue)
        return (methods.contains("GET") ? methods + ["HEAD"] : methods).joined(separator: ", ")
    }
}

/// One method of one path.
package struct Route: Sendable {
    package typealias Endpoint = @Sendable (Exchange) async throws -> Answer
    /// Begins to answer a request without waiting. Returns false if this is not possible. In this case nothing was
    /// changed.
    package typealias DirectEndpoint = @Sendable (DirectExchange) -> Bool

    package let method: HTTPRequest.Method
    /// The media type of the route's responses, which `Accept` must allow; nil if `Accept` is not checked.
    package let mediaType: String?
    package let meters: RouteMeters
    package let endpoint: Endpoint
    /// Answers small requests without the connection's task; ``endpoint`` answers all others.
    package let directEndpoint: DirectEndpoint?

    package func mayAnswer(_ headers: HTTPFields) -> Bool {
        mediaType.map { Accept.allows($0, headers) } ?? true
    }
}

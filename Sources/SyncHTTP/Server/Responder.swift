import HTTPTypes
import HummingbirdCore
import Logging
import Metrics
import NIOCore
import SyncModel
import Telemetry

/// Handles every request of a server: assigns an id, finds the route, converts errors to responses, counts and logs.
struct Responder: Sendable {
    let routes: RouteTable
    let budgets: Budgets
    let logger: Logger
    let now: TimeSource
    /// The number of requests in progress; nil if they are not counted.
    var inFlight: Meter?
    /// Permits requests of web pages; if it is nil, responses have no CORS headers.
    var crossOrigin: CrossOrigin?
    /// Whether responses have ``BrowserRules``.
    let isForOperators: Bool

    /// The end of the message about an unknown path. It helps the client to find the right path.
    let signpost: String

    private let unmatched = RouteMeters(route: "unmatched", method: "any")
    let date = HTTPDate()
    private let storeWarnings = OncePerSecond()

    init(
        routes: RouteTable,
        budgets: Budgets,
        logger: Logger,
        now: @escaping TimeSource,
        inFlight: Meter? = nil,
        crossOrigin: CrossOrigin? = nil,
        isForOperators: Bool = false,
        signpost: String = ""
    ) {
        self.routes = routes
        self.budgets = budgets
        self.logger = logger
        self.now = now
        self.inFlight = inFlight
        self.crossOrigin = crossOrigin
        self.isForOperators = isForOperators
        self.signpost = signpost
    }

    enum Reply: Sendable {
        case response(Response)
        /// A head, and the successor that takes over the connection after the head.
        case handover(HTTPResponse, to: SocketHandover.Successor)
    }

    /// Answers a request. Every failure also results in a response.
    func respond(to request: Request, on channel: any Channel) async -> Reply {
        let started = NIODeadline.now()
        inFlight?.increment()
        defer { inFlight?.decrement() }
        let requestID = RequestID.of(request.headers)
        let trace = RequestTrace(of: request.head, requestID, isTraced: !isForOperators)
        return await LogContext.$current.withValue(LogContext(requestID: requestID, traceID: trace.traceID)) {
            await trace.within {
                await respond(to: request, requestID: requestID, trace, on: channel, since: started)
            }
        }
    }

    private func respond(
        to request: Request,
        requestID: String,
        _ trace: RequestTrace,
        on channel: any Channel,
        since started: NIODeadline
    ) async -> Reply {
        let hold = ResponseMemoryLease(budgets.answers, pages: budgets.pages)
        var (answer, route, failure) = await answer(request, requestID: requestID, channel: channel, hold: hold)
        crossOrigin?.mark(&answer, for: request.headers)
        if isForOperators { BrowserRules.mark(&answer, at: request.uri.path) }
        record(answer, route, failure, trace, since: started)
        let response = answer.response(to: request.method, requestID: requestID, date: date.text(at: now()))
        if hold.resize(to: request.method == .head ? 0 : answer.body?.count ?? 0) {
            await ConnectionGuard.release(hold, behindNextResponseOn: channel)
        }
        guard let successor = answer.successor else { return .response(response) }
        return .handover(response.head, to: successor)
    }

    /// Counts and logs a response, and ends the request's span.
    func record(
        _ answer: Answer,
        _ route: Route?,
        _ failure: (any Error)?,
        _ trace: RequestTrace,
        since started: NIODeadline
    ) {
        trace.end(answer.status, route)
        let elapsed = (NIODeadline.now() - started).nanoseconds
        (route?.meters ?? unmatched).record(answer.status, nanoseconds: elapsed)
        let level = level(for: answer.status)
        guard logger.logLevel <= level else { return }
        let line = LogLine(route: route, answer: answer, elapsed: elapsed)
        logger.log(level: level, "Request answered", metadata: line.metadata(failure: failure))
    }

    private func answer(
        _ request: Request,
        requestID: String,
        channel: any Channel,
        hold: ResponseMemoryLease
    ) async -> (Answer, Route?, failure: (any Error)?) {
        var matched: Route?
        do {
            let (route, parameters) = try route(of: request)
            matched = route
            if let mediaType = route.mediaType, !route.mayAnswer(request.headers) {
                throw Problem(.notAcceptable, "The response is \(mediaType), which the Accept header excludes.")
            }
            let exchange = Exchange(
                request: request,
                requestID: requestID,
                parameters: parameters,
                channel: channel,
                hold: hold,
                budgets: budgets
            )
            return (try await route.endpoint(exchange), route, nil)
        } catch {
            return (Refusal(of: error).answer(requestID: requestID), matched, error)
        }
    }

    private func route(of request: Request) throws(Refusal) -> (Route, parameters: [Substring]) {
        switch routes.match(request.method, request.uri.path) {
        case .route(let route, let parameters): return (route, parameters)
        case .nothing: throw Refusal(Problem(.notFound, "No resource exists at this path" + signpost + "."))
        case .otherMethods(let allow):
            let problem = Problem(.methodNotAllowed, "This path supports: \(allow).")
            throw Refusal(problem, headers: [.allow: allow])
        }
    }

    /// The level of a response's log line.
    ///
    /// Statuses of 500 and above are errors, except 503, which is a warning. While the store is unavailable, every
    /// request fails in the same way. Therefore only one line a second is a warning.
    private func level(for status: HTTPResponse.Status) -> Logger.Level {
        if status.code < 500 { return .debug }
        if status.code != 503 { return .error }
        return storeWarnings.isFirst(at: now().seconds) ? .warning : .debug
    }
}

import HTTPTypes
import Metrics
import NIOCore
import Telemetry

extension Responder {
    /// Begins to answer a request without a task, if the request's route can do so now.
    ///
    /// - Parameter write: receives the response on the channel's event loop, after this method has returned.
    /// - Returns: whether the answer has begun. If it has not, nothing was changed.
    func respondsDirectly(
        to head: HTTPRequest,
        _ body: ByteBuffer?,
        on channel: any Channel,
        _ write: @escaping @Sendable (HTTPResponse, ByteBuffer?) -> Void
    ) -> Bool {
        guard let route = routes.direct(head.method, head.path ?? ""), let endpoint = route.directEndpoint,
            route.mayAnswer(head.headerFields)
        else { return false }
        let started = NIODeadline.now()
        let requestID = RequestID.of(head.headerFields)
        let trace = RequestTrace(of: head, requestID, isTraced: !isForOperators)
        let context = LogContext(requestID: requestID, traceID: trace.traceID)
        let hold = ResponseMemoryLease(budgets.answers, pages: budgets.pages)
        let exchange = DirectExchange(
            head: head,
            body: body.map { Array($0.readableBytesView) } ?? [],
            eventLoop: channel.eventLoop,
            context: context,
            trace: trace.recorded,
            reply: { result in
                inFlight?.decrement()
                var (answer, failure) = Self.answer(result, requestID: requestID)
                crossOrigin?.mark(&answer, for: head.headerFields)
                LogContext.$current.withValue(context) { record(answer, route, failure, trace, since: started) }
                if hold.resize(to: answer.body?.count ?? 0) {
                    ConnectionGuard.releaseNow(hold, behindNextResponseOn: channel)
                }
                let (response, body) = answer.message(to: head.method, requestID: requestID, date: date.text(at: now()))
                write(response, body)
            },
            hold: hold
        )
        guard endpoint(exchange) else { return false }
        inFlight?.increment()
        return true
    }

    private static func answer(
        _ result: Result<Answer, any Error>,
        requestID: String
    ) -> (Answer, failure: (any Error)?) {
        switch result {
        case .success(let answer): (answer, nil)
        case .failure(let error): (Refusal(of: error).answer(requestID: requestID), error)
        }
    }
}

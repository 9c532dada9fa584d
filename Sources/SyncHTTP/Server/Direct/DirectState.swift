import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Decides which of a connection's requests may be answered directly; ``DirectHandler`` acts.
///
/// Responses are sent in the order of their requests. So while a request is answered directly, the following ones wait.
/// While a request that was passed on has no response, the following ones are passed on, too.
struct DirectState {
    /// What to do about a part of a request.
    enum Action {
        case nothing
        case pass([HTTPRequestPart])
        /// A request is complete: answer it, or else pass it on.
        case answer(HTTPRequest, ByteBuffer?)
    }

    /// Data that wait behind a request that is answered directly.
    enum Waiting {
        case part(HTTPRequestPart)
        case error(any Error)
        /// The client sends no more.
        case inputClosed
    }

    private enum Phase {
        case passing
        /// The head was read, and perhaps the body.
        case gathering(HTTPRequest, ByteBuffer?)
        case answering
    }

    private var phase = Phase.passing
    /// Requests that were passed on and have no response yet.
    private var passedOn = 0
    private var waiting: [Waiting] = []

    mutating func read(_ part: HTTPRequestPart) -> Action {
        switch (phase, part) {
        case (.answering, _):
            waiting.append(.part(part))
            return .nothing
        case (.passing, .head(let head)) where passedOn == 0:
            phase = .gathering(head, nil)
            return .nothing
        case (.passing, .head):
            passedOn += 1
            return .pass([part])
        case (.passing, _):
            return .pass([part])
        case (.gathering(let head, nil), .body(let body)):
            phase = .gathering(head, body)
            return .nothing
        case (.gathering(let head, let body), .end(nil)):
            phase = .answering
            return .answer(head, body)
        case (.gathering, _):
            return .pass(giveUp() + [part])
        }
    }

    /// The end of the arrived data: a request that is not complete is passed on.
    ///
    /// - Returns: its parts.
    mutating func giveUp() -> [HTTPRequestPart] {
        guard case .gathering(let head, let body) = phase else { return [] }
        phase = .passing
        passedOn += 1
        return [.head(head)] + (body.map { [.body($0)] } ?? [])
    }

    /// The request that is complete is passed on after all.
    mutating func refuse() {
        phase = .passing
        passedOn += 1
    }

    /// Whether an event waits, too, as it does behind a request that is answered directly.
    mutating func holds(_ event: Waiting) -> Bool {
        guard case .answering = phase else { return false }
        waiting.append(event)
        return true
    }

    /// A request that was passed on has its response.
    mutating func passedOnAnswered() {
        // a connection that did not speak HTTP is answered without a request
        passedOn = max(0, passedOn - 1)
    }

    /// The direct response was written.
    ///
    /// - Returns: the data that waited for it.
    mutating func answered() -> [Waiting] {
        phase = .passing
        defer { waiting = [] }
        return waiting
    }
}

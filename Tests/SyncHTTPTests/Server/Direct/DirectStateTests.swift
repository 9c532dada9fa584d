import HTTPTypes
import NIOCore
import NIOHTTPTypes
import Testing

@testable import SyncHTTP

/// A state whose actions are returned by name.
private final class Connection {
    private static let body = ByteBuffer(string: "{}")
    private var state = DirectState()

    func readHead() -> String {
        name(state.read(.head(HTTPRequest(method: .post, scheme: nil, authority: nil, path: "/"))))
    }

    func readBody() -> String { name(state.read(.body(Self.body))) }

    func readEnd(_ trailers: HTTPFields? = nil) -> String { name(state.read(.end(trailers))) }

    func readWhole() -> [String] { [readHead(), readBody(), readEnd()] }

    func giveUp() -> Int { state.giveUp().count }

    func refuse() { state.refuse() }

    func passedOnAnswered() { state.passedOnAnswered() }

    func holds(_ event: DirectState.Waiting) -> Bool { state.holds(event) }

    func answered() -> [String] {
        state.answered().map { event in
            switch event {
            case .part(.head): "head"
            case .part(.body): "body"
            case .part(.end): "end"
            case .error: "error"
            case .inputClosed: "input closed"
            }
        }
    }

    private func name(_ action: DirectState.Action) -> String {
        switch action {
        case .nothing: "nothing"
        case .pass(let parts): "pass \(parts.count)"
        case .answer(_, let body): body == nil ? "answer without body" : "answer"
        }
    }
}

@Suite("Which requests may be answered directly")
struct DirectStateTests {
    private let connection = Connection()

    @Test
    func `a request in one piece is answered directly`() {
        #expect(connection.readWhole() == ["nothing", "nothing", "answer"])
        #expect(connection.answered().isEmpty)
        #expect(connection.readHead() == "nothing")
        #expect(connection.readEnd() == "answer without body")
    }

    @Test
    func `a request in parts and all later ones are passed on until they are answered`() {
        #expect(connection.readHead() == "nothing")
        #expect(connection.readBody() == "nothing")
        #expect(connection.giveUp() == 2)
        #expect(connection.giveUp() == 0)
        #expect(connection.readBody() == "pass 1")
        #expect(connection.readEnd() == "pass 1")
        #expect(connection.readWhole() == ["pass 1", "pass 1", "pass 1"])
        connection.passedOnAnswered()
        #expect(connection.readWhole() == ["pass 1", "pass 1", "pass 1"])
        connection.passedOnAnswered()
        connection.passedOnAnswered()
        #expect(connection.readWhole() == ["nothing", "nothing", "answer"])
    }

    @Test
    func `passes on a body in several parts and one with trailers`() {
        #expect(connection.readHead() == "nothing")
        #expect(connection.readBody() == "nothing")
        #expect(connection.readBody() == "pass 3")
        #expect(connection.readEnd() == "pass 1")
        connection.passedOnAnswered()
        #expect(connection.readHead() == "nothing")
        #expect(connection.readEnd([.date: "now"]) == "pass 2")
    }

    @Test
    func `a request that its route declines counts as passed on`() {
        #expect(connection.readWhole() == ["nothing", "nothing", "answer"])
        connection.refuse()
        #expect(connection.readHead() == "pass 1")
    }

    @Test
    func `events after a request wait until its direct answer is sent`() {
        #expect(connection.readWhole() == ["nothing", "nothing", "answer"])
        #expect(connection.readHead() == "nothing")
        #expect(connection.holds(.error(CancellationError())))
        #expect(connection.holds(.inputClosed))
        #expect(connection.giveUp() == 0)
        #expect(connection.answered() == ["head", "error", "input closed"])
        #expect(!connection.holds(.inputClosed))
    }
}

import NIOCore
import Testing

@testable import SyncHTTP

@Suite("The bounds of a connection")
struct ConnectionStateTests {
    private let start = NIODeadline.uptimeNanoseconds(1_000_000_000)

    private func state() -> ConnectionState {
        ConnectionState(bodyTimeout: .seconds(30), writeTimeout: .seconds(60), shutdownTimeout: .seconds(5))
    }

    @Test
    func `A request in one piece needs no timer`() {
        var state = state()
        state.readHead(closes: false, at: start)
        state.readEnd()
        #expect(state.deadline == nil)
        let announces = state.writeHead()
        #expect(!announces)
        #expect(state.writeEnd(at: start) == .keep)
    }

    @Test
    func `A late body is refused, and ends the connection`() {
        var state = state()
        state.readHead(closes: false, at: start)
        #expect(state.timerFired(at: start + .seconds(29)) == .wait(until: start + .seconds(30)))
        #expect(state.timerFired(at: start + .seconds(30)) == .refuseBody)
        let announces = state.writeHead()
        #expect(announces)
        #expect(state.writeEnd(at: start) == .closeAfterLingering)
    }

    @Test
    func `a body that is cut off ends the connection, and only while it arrives`() {
        var state = state()
        let isCutBefore = state.cutBody()
        #expect(!isCutBefore)
        state.readHead(closes: false, at: start)
        let isCut = state.cutBody()
        #expect(isCut)
        let isCutAgain = state.cutBody()
        #expect(!isCutAgain)
        let announces = state.writeHead()
        #expect(announces)
        #expect(state.writeEnd(at: start) == .closeAfterLingering)
        var whole = self.state()
        whole.readHead(closes: false, at: start)
        whole.readEnd()
        let isWholeCut = whole.cutBody()
        #expect(!isWholeCut)
    }

    @Test
    func `An answer to a body that is still arriving ends the connection`() {
        var state = state()
        state.readHead(closes: false, at: start)
        let announces = state.writeHead()
        #expect(announces)
        #expect(state.writeEnd(at: start) == .closeAfterLingering)
    }

    @Test
    func `A client that asks for it is let go`() {
        var state = state()
        state.readHead(closes: true, at: start)
        state.readEnd()
        let announces = state.writeHead()
        #expect(announces)
        #expect(state.writeEnd(at: start) == .close)
    }

    @Test
    func `A client that does not read is cut off`() {
        var state = state()
        state.becameWritable(false, at: start)
        #expect(state.deadline == start + .seconds(60))
        #expect(state.timerFired(at: start + .seconds(60)) == .close)
    }

    @Test
    func `A client that reads slowly has time as long as it gets on, and no longer`() {
        var state = ConnectionState(
            bodyTimeout: .seconds(30),
            writeTimeout: .seconds(60),
            shutdownTimeout: .seconds(5),
            leastProgress: 1_000
        )
        state.becameWritable(false, unsent: 10_000, at: start)
        #expect(state.timerFired(at: start + .seconds(60), unsent: 9_000) == .wait(until: start + .seconds(120)))
        #expect(state.timerFired(at: start + .seconds(120), unsent: 8_001) == .close)
        state.shutDown(at: start + .seconds(120))
        #expect(state.timerFired(at: start + .seconds(125), unsent: 0) == .close)
    }

    @Test
    func `A client that reads again is not`() {
        var state = state()
        state.becameWritable(false, at: start)
        state.becameWritable(true, at: start + .seconds(1))
        #expect(state.timerFired(at: start + .seconds(60)) == .nothing)
    }

    @Test
    func `A connection that ends has as long for what is left and takes nothing more`() {
        var state = state()
        state.end(unsent: 500, at: start)
        state.becameWritable(true, at: start + .seconds(1))
        #expect(state.deadline == start + .seconds(61))
        state.readHead(closes: false, at: start + .seconds(2))
        #expect(!state.takesParts)
        #expect(state.timerFired(at: start + .seconds(61), unsent: 500) == .close)
    }

    @Test
    func `Requests sent ahead are not read`() {
        var state = state()
        for _ in 0..<2 {
            #expect(state.mayRead)
            state.readHead(closes: false, at: start)
            state.readEnd()
        }
        #expect(!state.mayRead)
        _ = state.writeHead()
        #expect(state.writeEnd(at: start) == .keep)
        #expect(state.mayRead)
    }

    @Test
    func `The end of the connection is the last request's to ask for, not that of those before it`() {
        for (closes, arrives) in [(true, true), (false, false)] {
            var state = state()
            state.readHead(closes: false, at: start)
            state.readEnd()
            state.readHead(closes: closes, at: start)
            if arrives { state.readEnd() }
            let announces = state.writeHead()
            #expect(!announces)
            #expect(state.writeEnd(at: start) == .keep)
            let announcesLast = state.writeHead()
            #expect(announcesLast)
            #expect(state.writeEnd(at: start) == (arrives ? .close : .closeAfterLingering))
        }
    }

    @Test
    func `What comes behind the last request is dropped`() {
        var state = state()
        state.readHead(closes: true, at: start)
        state.readEnd()
        #expect(state.takesParts)
        state.readHead(closes: false, at: start)
        state.readEnd()
        #expect(!state.takesParts)
        #expect(state.requestsInHand == 1)
        let announces = state.writeHead()
        #expect(announces)
        #expect(state.writeEnd(at: start) == .close)
    }

    @Test
    func `The rest of a body is read behind its answer, and no other request`() {
        var state = state()
        state.readHead(closes: false, at: start)
        _ = state.writeHead()
        #expect(state.writeEnd(at: start) == .closeAfterLingering)
        #expect(state.takesParts)
        state.readEnd()
        state.readHead(closes: false, at: start)
        #expect(!state.takesParts)
    }

    @Test
    func `The time of a body does not run while nothing is read`() {
        var state = state()
        state.readHead(closes: false, at: start)
        state.readEnd()
        state.readHead(closes: false, at: start)
        #expect(state.deadline == nil)
        #expect(state.timerFired(at: start + .seconds(60)) == .nothing)
        _ = state.writeHead()
        #expect(state.writeEnd(at: start + .seconds(60)) == .keep)
        #expect(state.timerFired(at: start + .seconds(89)) == .wait(until: start + .seconds(90)))
        #expect(state.timerFired(at: start + .seconds(90)) == .refuseBody)
    }

    @Test
    func `A shutdown answers what was taken, and takes no more`() {
        var state = state()
        for _ in 0..<2 {
            state.readHead(closes: false, at: start)
            state.readEnd()
        }
        state.shutDown(at: start)
        #expect(!state.mayRead)
        let announces = state.writeHead()
        #expect(!announces)
        #expect(state.writeEnd(at: start) == .keep)
        #expect(!state.mayRead)
        let announcesLast = state.writeHead()
        #expect(announcesLast)
        #expect(state.writeEnd(at: start) == .close)
    }

    @Test
    func `A shutdown reads a body to its end`() {
        var state = state()
        state.readHead(closes: false, at: start)
        state.shutDown(at: start)
        #expect(state.mayRead)
        state.readEnd()
        #expect(!state.mayRead)
    }

    @Test
    func `A shutdown shortens what is under way`() {
        var state = state()
        state.readHead(closes: false, at: start)
        state.shutDown(at: start + .seconds(1))
        #expect(state.deadline == start + .seconds(6))
        state.readEnd()
        let announces = state.writeHead()
        #expect(announces)
        #expect(state.writeEnd(at: start) == .close)
    }
}

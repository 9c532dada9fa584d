import SyncModel
import Testing

@testable import TraceExport

@Suite struct SpanExportTests {
    private let counted = CountedExport()
    private let clock = ManualClock()
    private let receiver = ScriptedReceiver()
    private let log = LogMessages()

    private func queue(capacity: Int = 100, batch: Int = 10, spans: Int = 0) -> SpanQueue {
        let queue = SpanQueue(capacity: capacity, batch: batch, metrics: counted.metrics)
        for _ in 0..<spans { queue.add(record()) }
        return queue
    }

    private func export(_ queue: SpanQueue) -> SpanExport {
        SpanExport(
            queue,
            encoder: encoder(),
            metrics: counted.metrics,
            logger: log.logger,
            now: { [clock] in clock.now },
            send: { [receiver] in receiver.send($0, $1) }
        )
    }

    /// A task that sends the queue's spans until it is cancelled.
    private func serving(_ queue: SpanQueue, to receiver: HangingReceiver) -> Task<SpanExport, Never> {
        let export = SpanExport(
            queue,
            encoder: encoder(),
            metrics: counted.metrics,
            logger: log.logger,
            now: { [clock] in clock.now },
            send: { await receiver.send($0, $1) }
        )
        return Task {
            var export = export
            await export.serve()
            return export
        }
    }

    @Test func `a full queue drops new spans and counts them`() {
        let queue = queue(capacity: 20, spans: 50)
        #expect(queue.count == 20)
        #expect(counted.dropped(.queueFull) == 30)
        #expect(queue.takeBatch().count == 10 && queue.count == 10)
        queue.add(record())
        #expect(queue.count == 11 && counted.dropped(.queueFull) == 30)
    }

    @Test func `sends all waiting spans in batches`() async {
        let queue = queue(spans: 25)
        var export = export(queue)
        await export.run()
        #expect(receiver.batches == [10, 10, 5])
        #expect(counted.exported == 25 && counted.failures == 0)
        await export.run()
        #expect(receiver.batches.count == 3, "nothing waits")
    }

    @Test func `counts the spans that the receiver rejects`() async {
        receiver.answer(.accepted(rejected: 3))
        var export = export(queue(spans: 10))
        await export.run()
        #expect(counted.exported == 7 && counted.dropped(.refused) == 3)
    }

    @Test func `retries the same batch with growing pauses and logs an outage once`() async {
        receiver.answer(.failed("connection refused"))
        let queue = queue(capacity: 30, spans: 30)
        var export = export(queue)
        var tries = 0
        var pauses: [Duration] = []
        let start = clock.now
        var last = start
        while clock.now < start + .seconds(600) {
            await export.run()
            if receiver.batches.count > tries {
                tries = receiver.batches.count
                pauses.append(clock.now - last)
                last = clock.now
            }
            clock.advance(.milliseconds(100))
        }
        // 1, 2, 4 … 60 seconds; each pause has at least half of that
        #expect((13...27).contains(tries))
        for (index, pause) in pauses.dropFirst().enumerated() {
            let backoff = min(Duration.seconds(60), .seconds(1) * (1 << min(index, 10)))
            #expect(pause >= backoff / 2 && pause <= backoff + .milliseconds(100), "\(index): \(pause)")
        }
        #expect(receiver.batches.allSatisfy { $0 == 10 })
        #expect(queue.count == 20, "a batch is held, and the queue is not emptied")
        #expect(counted.failures == Double(tries) && counted.exported == 0)
        #expect(log.messages == ["Traces cannot be exported; spans are dropped while this lasts"])

        receiver.answer(.accepted(rejected: 0))
        clock.advance(.seconds(60))
        await export.run()
        #expect(counted.exported == 30 && counted.dropped(.queueFull) == 0)
        #expect(log.messages.last == "Traces are exported again" && log.messages.count == 2)
        // the pause starts at a second again
        receiver.answer(.failed("connection refused"))
        queue.add(record())
        await export.run()
        clock.advance(.seconds(1))
        receiver.answer(.accepted(rejected: 0))
        await export.run()
        #expect(counted.exported == 31)
    }

    @Test func `waits as long as the receiver asks, but at most a minute`() async {
        for (asked, waited) in [(30, 30), (3_600, 60)] {
            receiver.answer(.failed("status 429", retryAfter: .seconds(asked)))
            let before = receiver.batches.count
            var export = export(queue(spans: 1))
            await export.run()
            clock.advance(.seconds(waited) - .milliseconds(1))
            await export.run()
            #expect(receiver.batches.count == before + 1)
            clock.advance(.milliseconds(1))
            await export.run()
            #expect(receiver.batches.count == before + 2)
        }
    }

    @Test func `drops a batch that the receiver refuses`() async {
        receiver.answer(.refused("status 401"))
        let queue = queue(spans: 12)
        var export = export(queue)
        await export.run()
        #expect(counted.dropped(.refused) == 10 && queue.count == 2)
        clock.advance(.seconds(60))
        await export.run()
        #expect(counted.dropped(.refused) == 12)
        #expect(log.messages.count == 1)
    }

    @Test func `sends the last spans at shutdown, also during a pause`() async {
        receiver.answer(.failed("connection refused"))
        let queue = queue(spans: 15)
        var export = export(queue)
        await export.run()
        receiver.answer(.accepted(rejected: 0))
        await export.flush(within: .seconds(2))
        #expect(counted.exported == 15 && counted.dropped(.shutdown) == 0 && queue.count == 0)
    }

    @Test func `ends a request without an answer at shutdown and sends its spans again`() async {
        let queue = queue(spans: 25)
        let hanging = HangingReceiver(receiver)
        let serving = serving(queue, to: hanging)
        queue.tick()
        await hanging.firstRequest()
        queue.close()
        serving.cancel()
        var rest = await serving.value
        #expect(receiver.batches.isEmpty, "no second request before the flush")
        #expect(counted.failures == 0 && log.messages.isEmpty, "the receiver has not failed")
        await rest.flush(within: .seconds(2))
        #expect(receiver.batches == [10, 10, 5])
        #expect(hanging.timeouts == [.seconds(5), .seconds(2), .seconds(2), .seconds(2)])
        #expect(counted.exported == 25 && counted.dropped(.shutdown) == 0 && queue.count == 0)
    }

    @Test func `counts the spans of an ended request as dropped once`() async {
        receiver.answer(.failed("connection refused"))
        let queue = queue(spans: 15)
        let hanging = HangingReceiver(receiver)
        let serving = serving(queue, to: hanging)
        queue.tick()
        await hanging.firstRequest()
        serving.cancel()
        var rest = await serving.value
        await rest.flush(within: .seconds(2))
        #expect(receiver.batches == [10], "one attempt")
        #expect(counted.failures == 1 && counted.exported == 0 && counted.dropped(.shutdown) == 15)
    }

    @Test func `drops what cannot be sent at shutdown`() async {
        receiver.answer(.failed("connection refused"))
        let queue = queue(spans: 25)
        var export = export(queue)
        await export.flush(within: .seconds(2))
        #expect(receiver.batches.count == 1, "one attempt")
        #expect(counted.dropped(.shutdown) == 25 && queue.count == 0)
    }

    @Test func `interprets responses as OTLP defines`() {
        func answer(_ status: Int, _ retryAfter: String? = nil, _ body: String = "{}") -> String {
            "\(OTLPSender.answer(status, retryAfter, Array(body.utf8)))"
        }
        #expect(answer(200) == "accepted(rejected: 0)")
        #expect(answer(202, nil, "") == "accepted(rejected: 0)")
        #expect(answer(200, nil, #"{"partialSuccess":{"rejectedSpans":"4"}}"#) == "accepted(rejected: 4)")
        #expect(answer(200, nil, #"{"partialSuccess":{"rejectedSpans":4}}"#) == "accepted(rejected: 4)")
        for status in [429, 502, 503, 504] {
            #expect(answer(status) == #"failed("status \#(status)", retryAfter: nil)"#)
            let waited = #"failed("status \#(status)", retryAfter: Optional(7.0 seconds))"#
            #expect(answer(status, "7") == waited)
        }
        for status in [301, 400, 401, 404, 413, 500] {
            #expect(answer(status) == #"refused("status \#(status)")"#)
        }
    }
}

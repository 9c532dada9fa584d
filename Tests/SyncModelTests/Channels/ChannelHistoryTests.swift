import Foundation
import TestSupport
import Testing

@testable import SyncModel

/// Random histories of an organization with channels, and devices that pull them.
///
/// A million steps: `SLUICE_CHANNEL_STEPS=1000000 swift test -c release --traits Gateway --filter ChannelHistoryTests`.
@Suite struct ChannelHistoryTests {
    @Test func `devices have what their users see, and receive nothing else`() {
        let seed = Seed()
        let environment = ProcessInfo.processInfo.environment
        let steps = environment["SLUICE_CHANNEL_STEPS"].flatMap(Int.init) ?? 2_000
        var random = seed.generator
        var remaining = steps
        while remaining > 0 {
            var history = ChannelHistory(random.split())
            let count = min(remaining, 400)
            for _ in 0..<count {
                history.step()
                if let failure = history.failure {
                    Issue.record("\(failure), \(seed)")
                    return
                }
            }
            remaining -= count
        }
    }
}

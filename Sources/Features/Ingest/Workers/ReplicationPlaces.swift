import FoundationEssentials
import SyncStore
import Synchronization

/// The places for the sources that this replica follows. A source needs a place while it is followed.
///
/// Organizations take turns, and no organization has more than its share. Sources whose last run failed take at most
/// half of the places, so that databases that do not respond cannot take all places. A source keeps its place until
/// another source waits for a place.
package final class ReplicationPlaces: WorkPlaces {
    private struct Work {
        let begun = ContinuousClock.now
        var yields = false
    }

    private struct State {
        var running: [SourceKey: Work] = [:]
        /// Sources whose last run on this replica failed.
        var failing: Set<SourceKey> = []
    }

    private let configuration: ReplicationWorker.Configuration
    private let state = Mutex(State())

    init(_ configuration: ReplicationWorker.Configuration) { self.configuration = configuration }

    /// The number of sources that this replica follows.
    package var count: Int { state.withLock { $0.running.count } }
    package var hasRoom: Bool { count < configuration.places }

    /// The sources that should release their places.
    var yielding: [SourceKey] { state.withLock { $0.running.filter(\.value.yields).map(\.key) } }

    func yields(_ source: SourceKey) -> Bool { state.withLock { $0.running[source]?.yields ?? true } }

    func record(_ source: SourceKey, hasFailed: Bool) {
        state.withLock { state in
            if hasFailed { state.failing.insert(source) } else { state.failing.remove(source) }
            // forgets all failing sources; a source that fails again is added again
            if state.failing.count > 10_000 { state.failing = [] }
        }
    }

    package func release(_ source: SourceKey) { state.withLock { state in state.running[source] = nil } }

    /// Assigns places to sources. Organizations take turns; the sources of an organization get places in the given
    /// order.
    ///
    /// If some sources get no place, sources that have had their places for at least a turn are marked to release them.
    package func take(_ sources: [SourceKey]) -> (taken: [SourceKey], isCrowded: Bool) {
        state.withLock { state in
            for source in sources {
                guard let work = state.running[source], work.begun.duration(to: .now) > .seconds(configuration.settling)
                else { continue }
                // a source that is still listed as due this long after it got its place was changed by an operator
                state.running[source]?.yields = true
            }
            let places = configuration.places
            var failingCount = state.running.keys.count { state.failing.contains($0) }
            let mostFailing = max(1, places / 2)
            var new: [SourceKey] = []
            for source in sources where state.running[source] == nil {
                if state.failing.contains(source) {
                    guard failingCount < mostFailing else { continue }
                    failingCount += 1
                }
                new.append(source)
            }
            var taken: [SourceKey] = []
            var held = Dictionary(grouping: state.running.keys, by: \.organization).mapValues(\.count)
            var waiting = Dictionary(grouping: new.reversed(), by: \.organization)
            while state.running.count < places, !waiting.isEmpty {
                for organization in waiting.keys.shuffled() where state.running.count < places {
                    guard held[organization, default: 0] < configuration.maxConcurrentPerOrganization,
                        let source = waiting[organization]?.popLast()
                    else {
                        requestPlaces(of: organization, waiting[organization]?.count ?? 0, &state.running)
                        waiting[organization] = nil
                        continue
                    }
                    held[organization, default: 0] += 1
                    state.running[source] = Work()
                    taken.append(source)
                }
            }
            let left = waiting.values.reduce(0) { $0 + $1.count }
            if left > 0 {
                requestPlaces(of: nil, left, &state.running)
                requestExcessPlaces(left, waiting: Set(waiting.filter { !$0.value.isEmpty }.keys), &state.running)
            }
            return (taken, left > 0)
        }
    }

    private func requestPlaces(of organization: UUID?, _ count: Int, _ running: inout [SourceKey: Work]) {
        let old = running.filter { key, work in
            !work.yields && (organization == nil || key.organization == organization)
                && work.begun.duration(to: .now) >= .seconds(configuration.turn)
        }
        let longest = old.sorted { $0.value.begun < $1.value.begun }.prefix(count)
        for (key, _) in longest { running[key]?.yields = true }
    }

    /// If an organization has more than an equal share of the places, marks some of its sources. These sources release
    /// their places before their turns end.
    private func requestExcessPlaces(_ count: Int, waiting: Set<UUID>, _ running: inout [SourceKey: Work]) {
        let held = Dictionary(grouping: running, by: \.key.organization)
        let share = max(1, configuration.places / max(1, waiting.union(held.keys).count))
        var remaining = count - running.values.count { $0.yields }
        for works in held.values {
            var excess = works.count { !$0.value.yields } - share
            for (key, work) in works.sorted(by: { $0.value.begun < $1.value.begun })
            where excess > 0 && remaining > 0 && !work.yields {
                guard work.begun.duration(to: .now) >= .seconds(min(configuration.settling, configuration.turn)) else {
                    break
                }
                running[key]?.yields = true
                (excess, remaining) = (excess - 1, remaining - 1)
            }
        }
    }
}

import Foundation
import JSONText
import SyncModel

/// Equivalent texts of a push are parsed alike, and accepted pushes obey the rules.
enum PushTarget {
    private static let limits = {
        var limits = IntakeLimits()
        limits.mutations = 8
        limits.payloadDepth = 8
        limits.dependencies = 4
        return limits
    }()

    static func run(_ bytes: [UInt8]) {
        let reading = Reading(bytes)
        guard let tree = try? JSONTree(parsing: bytes), !tree.root.hasDefects else { return }
        var source = ModelSource(seed: UInt64(bytes.count))
        // in another order, with other white space, escapes and case of UUIDs
        let rewritten = Array(source.write(Model(tree.root)).utf8)
        guard rewritten.count < limits.bodyBytes else { return }
        let other = Reading(rewritten)
        expect(reading == other, "\(reading) but \(other), written as \(show(rewritten))")
    }

    /// The parts of a push that must be equal for equivalent texts.
    private enum Reading: Equatable {
        case refused(String)
        case read([Entry])

        init(_ body: [UInt8]) {
            do throws(Problem) {
                let request = try PushRequest(body: body, limits: PushTarget.limits)
                expect(request.entries.count <= PushTarget.limits.mutations, "too many entries")
                let ids = TouchedMappings(request).clientIDs
                expect(Set(ids).count == ids.count, "duplicate client ids")
                self = .read(request.entries.map { Entry($0) })
            } catch {
                self = .refused(error.code.rawValue)
            }
        }
    }

    private struct Entry: Equatable {
        let id: UUID?
        let key: UUID?
        let number: Int64?
        var fingerprint: Fingerprint?
        var references: Set<UUID> = []
        var errors: Set<String> = []

        init(_ entry: PushEntry) {
            id = entry.id
            key = entry.idempotencyKey
            number = entry.sequenceNumber
            expect((entry.mutation == nil) != (entry.refusal == nil), "accepted and refused, or neither")
            if let mutation = entry.mutation {
                fingerprint = mutation.fingerprint
                references = Set(mutation.references)
                check(mutation)
            }
            if let problem = entry.refusal {
                errors = Set(problem.errors.map { "\($0.pointer) \($0.rule)" })
                expect(!problem.errors.isEmpty, "refused without a reason")
                for error in problem.errors {
                    expect(error.pointer.hasPrefix("/mutations/\(entry.index)"), "points elsewhere: \(error)")
                    expect(JSONPointer.isValid(error.pointer) || error.pointer.hasSuffix("…"), "no pointer: \(error)")
                }
            }
        }

        private func check(_ mutation: Mutation) {
            expect(mutation.sequenceNumber >= 1, "sequence number \(mutation.sequenceNumber)")
            expect((1...100).contains(mutation.maxAttempts), "max_attempts \(mutation.maxAttempts)")
            expect((0...1_000).contains(mutation.priority ?? 0), "priority \(mutation.priority ?? 0)")
            expect((mutation.baseVersion ?? 0) >= 0, "base_version \(mutation.baseVersion ?? 0)")
            expect(mutation.dependencyIDs.count <= PushTarget.limits.dependencies, "too many dependencies")
            expect((mutation.payload?.depth ?? 0) <= PushTarget.limits.payloadDepth, "the payload is too deep")
            expect(mutation.payload?.hasDefects != true, "the payload has defects")
            let type = mutation.entity.type.utf8
            expect(type.count <= 64 && type.allSatisfy { $0 > 0x20 && $0 < 0x7f }, "type \(mutation.entity.type)")
            let headers = mutation.headers?.members.map { Array($0) } ?? []
            for (name, value) in headers {
                let text = (value.string ?? "\n") + name.string
                expect(!text.utf8.contains { ($0 < 0x20 && $0 != 9) || $0 == 0x7f }, "header \(text.debugDescription)")
            }
            if let endpoint = mutation.endpoint { EndpointTarget.check(endpoint) }
            let places = mutation.fingerprint.places
            let stored = Fingerprint(stored: mutation.fingerprint.stored, places: places)
            expect(places.count <= mutation.fingerprint.identifiers.count * 4, "places take \(places.count) bytes")
            expect(stored == mutation.fingerprint, "a stored fingerprint differs")
        }
    }
}

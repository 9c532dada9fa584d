import IngestFeature
import JSONText
import SyncModel

/// Mappings and their inputs: a mapping, a zero byte, a body. For any of them, each item becomes a valid event, a
/// reason with valid pointers, or nothing; repeatably.
enum MappingTarget {
    static func run(_ bytes: [UInt8]) {
        guard let (first, second) = halves(bytes), let settings = try? JSONTree(parsing: first).root else { return }
        var report = MemberReport()
        let mapping = SourceMapping(settings, at: "", &report)
        expect((mapping == nil) != report.problems.isEmpty, "\(report.problems)")
        for problem in report.problems {
            expect(JSONPointer.isValid(problem.pointer) && !problem.detail.isEmpty, "\(problem)")
        }
        guard let mapping else { return }
        written(mapping)
        guard let body = try? JSONTree(parsing: second).root else { return }
        for id in [MappedID.message("msg_1"), .content] { check(mapping, body, id) }
    }

    private static func written(_ mapping: SourceMapping) {
        var writer = JSONWriter()
        mapping.write(to: &writer)
        var report = MemberReport()
        let again = (try? JSONTree(parsing: writer.bytes).root).flatMap { SourceMapping($0, at: "", &report) }
        expect(again == mapping, "decodes to a different one: \(show(writer.bytes))")
    }

    private static func check(_ mapping: SourceMapping, _ body: JSONValue, _ id: MappedID) {
        do throws(Problem) {
            let events = try mapping.map(body, id: id, limits: IntakeLimits())
            let again = try mapping.map(body, id: id, limits: IntakeLimits())
            expect(events.entries.map(\.eventID) == again.entries.map(\.eventID), "other ids the second time")
            for (index, (entry, origin)) in zip(events.entries, events.origins).enumerated() {
                expect(body.value(at: origin.place) != nil, "no item at \(origin.place)")
                switch entry.event {
                case .success(let event):
                    expect(entry.eventID == event.id && (1...200).contains(event.id.utf8.count), event.id)
                    expect((event.document == nil) == (event.operation == .delete), "\(event.operation)")
                    expect(event.mark != SourceMark(), "neither version nor time")
                    expect(event.document.map { (try? JSONTree(parsing: $0)) != nil } ?? true, "no document")
                case .failure(let problem):
                    expect(problem.code == .validationFailed && !problem.errors.isEmpty, "\(problem)")
                    for detail in problem.errors {
                        let isPointer = JSONPointer.isValid(detail.pointer) || detail.pointer.hasSuffix("…")
                        expect(isPointer, "no pointer: \(detail)")
                    }
                }
                let judged = Problem(.validationFailed, pointer: "/events/\(index)/owner", rule: "", "")
                let placed = events.placed(judged, of: index).errors
                expect(placed.allSatisfy { JSONPointer.isValid($0.pointer) }, "\(placed)")
            }
        } catch {
            expect([413, 422].contains(error.code.status), "\(error)")
            expect(mapping.events != nil, "one item, and refused as a whole")
        }
    }
}

import Foundation
import JSONText

/// A singular query equals its normalized path, and finds the same value as a slow walk. The input is a query and a
/// document, with a zero byte between them.
enum PathTarget {
    static func run(_ bytes: [UInt8]) {
        guard let (path, document) = halves(bytes), let text = String(validating: path, as: UTF8.self) else { return }
        let query: SingularQuery
        do throws(SingularQueryError) {
            query = try SingularQuery(text)
        } catch {
            return expect((0...text.unicodeScalars.count).contains(error.place), "\(error.place) is no position")
        }
        expect(text.utf8.first == UInt8(ascii: "$"), "no query: \(text)")
        // escapes may make the normalized form longer than an accepted text
        if query.description.utf8.count <= SingularQuery.maximumBytes {
            let again = try? SingularQuery(query.description)
            expect(again?.steps.elementsEqual(query.steps, by: isSame) == true, "\(query) does not parse to itself")
        }
        guard let tree = try? JSONTree(parsing: document) else { return }
        let found = tree.root.value(at: query)
        expect(found?.offset == walk(tree.root, query.steps)?.offset, "\(query) leads to \(found?.offset ?? -1)")
    }

    private static func isSame(_ left: SingularQuery.Step, _ right: SingularQuery.Step) -> Bool {
        switch (left, right) {
        case (.member(let left), .member(let right)): Array(left.utf8) == Array(right.utf8)
        case (.element(let left), .element(let right)): left == right
        default: false
        }
    }

    private static func walk(_ value: JSONValue, _ steps: [SingularQuery.Step]) -> JSONValue? {
        guard let step = steps.first else { return value }
        let children: [JSONValue]
        switch step {
        case .member(let name):
            let named = value.members.map(Array.init)?.filter { $0.name.equals(utf8: Array(name.utf8)) }
            children = named?.prefix(1).map(\.value) ?? []
        case .element(let index):
            let elements = value.elements.map(Array.init) ?? []
            let place = index < 0 ? elements.count + index : index
            children = elements.indices.contains(place) ? [elements[place]] : []
        }
        return children.first.flatMap { walk($0, Array(steps.dropFirst())) }
    }
}

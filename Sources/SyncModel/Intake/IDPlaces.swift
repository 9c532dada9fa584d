import Foundation
import JSONText

/// The places of ids in the canonical form of a mutation's content.
///
/// They follow the entity's own id, as byte offsets from 0.
///
/// Stored as variable-length integers of seven bits a byte, the lowest first: the distance from the previous place,
/// times two, plus one where a device's own id follows. Mostly that is one byte a place.
struct IDPlaces: Sendable, Hashable {
    struct Place: Sendable, Hashable {
        let offset: Int
        /// The device's own id at this place; nil where a UUID was cut out.
        var number: Int64?
    }

    private(set) var stored: [UInt8] = []
    private var last = 0

    init() {}

    /// Finds the UUIDs that were cut out of a form.
    ///
    /// - Parameters:
    ///   - count: how many there are: the search ends with the last.
    ///   - start: the offset where the search begins.
    init(ofMarkersIn form: [UInt8], from start: Int, count: Int) {
        guard count > 0 else { return }
        form.withUnsafeBytes { form in
            guard let first = form.baseAddress else { return }
            var offset = start
            for _ in 0..<count {
                guard let found = memchr(first + offset, Int32(JSONValue.identifierMarker), form.count - offset) else {
                    return
                }
                let place = UnsafeRawPointer(found) - first
                append(Place(offset: place))
                offset = place + 1
            }
        }
    }

    mutating func append(_ place: Place) {
        append(UInt64(place.offset - last) << 1 | (place.number == nil ? 0 : 1))
        if let number = place.number { append(UInt64(bitPattern: number << 1 ^ number >> 63)) }
        last = place.offset
    }

    private mutating func append(_ value: UInt64) {
        var rest = value
        while rest > 0x7f {
            stored.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        stored.append(UInt8(rest))
    }

    /// Reads the stored form; nil for an invalid one.
    static func places(_ stored: [UInt8]) -> [Place]? {
        var rest = stored[...]
        func next() -> UInt64? {
            var value: UInt64 = 0
            for shift in stride(from: UInt64(0), to: 64, by: 7) {
                guard let byte = rest.popFirst() else { return nil }
                value |= UInt64(byte & 0x7f) << shift
                if byte & 0x80 == 0 { return value }
            }
            return nil
        }
        var places: [Place] = []
        var offset = 0
        while !rest.isEmpty {
            guard let step = next(), let distance = Int(exactly: step >> 1) else { return nil }
            let (sum, overflow) = offset.addingReportingOverflow(distance)
            guard !overflow else { return nil }
            offset = sum
            guard step & 1 == 1 else {
                places.append(Place(offset: offset))
                continue
            }
            guard let number = next() else { return nil }
            places.append(Place(offset: offset, number: Int64(bitPattern: number >> 1) ^ -Int64(number & 1)))
        }
        return places
    }
}

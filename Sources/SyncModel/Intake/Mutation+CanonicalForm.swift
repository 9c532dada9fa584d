import Foundation
import JSONText

extension Mutation {
    /// The canonical form of the content, with replacements for some of its ids.
    ///
    /// The fingerprint is its hash.
    ///
    /// - Parameters:
    ///   - appendEntity: appends the entity's replacement.
    ///   - part: the replacement of a part of the endpoint.
    ///   - value: the replacement of a string or number of payload and headers.
    func canonicalForm(
        entity appendEntity: (inout [UInt8]) -> Void,
        part: (ArraySlice<UInt8>, UUID?, Int) -> Endpoint.CanonicalPart?,
        value: (JSONValue, Int) -> CanonicalReplacement?
    ) -> [UInt8] {
        var canonical = Fingerprint.head(operation, entity.type, room: 512 + (payload?.rawCount ?? 0))
        appendEntity(&canonical)
        canonical.append(0)
        endpoint?.appendCanonical(to: &canonical, replacing: part)
        canonical.append(0)
        payload?.appendCanonical(to: &canonical, replacing: value)
        canonical.append(0)
        headers?.appendCanonical(to: &canonical, replacing: value)
        canonical.append(0)
        if let baseVersion { canonical += String(baseVersion).utf8 }
        return canonical
    }

    /// The fingerprint with the places of device ids recorded.
    ///
    /// Which numbers are ids is unknown before the mutation's type is known.
    func fingerprint(noting references: [LocalReference]) -> Fingerprint {
        guard !references.isEmpty else { return fingerprint }
        let numbers = Dictionary(references.map { ($0.place.value.offset, $0.id.number) }) { first, _ in first }
        var places = IDPlaces()
        _ = canonicalForm(
            entity: { Fingerprint.append(entity, to: &$0) },
            part: { _, uuid, offset in
                guard uuid != nil else { return nil }
                places.append(IDPlaces.Place(offset: offset))
                return .identifier(length: Endpoint.uuidBytes)
            },
            value: { value, offset in
                if value.uuid != nil {
                    places.append(IDPlaces.Place(offset: offset))
                    return .identifier
                }
                if let number = numbers[value.offset] {
                    places.append(IDPlaces.Place(offset: offset, number: number))
                }
                return nil
            }
        )
        return Fingerprint(digest: fingerprint.digest, identifiers: fingerprint.identifiers, places: places.stored)
    }
}

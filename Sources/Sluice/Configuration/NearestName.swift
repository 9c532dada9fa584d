/// Finds the known name closest to a misspelt one.
enum NearestName {
    /// The candidate with the fewest edits from `name`, if they are few.
    static func of(_ name: String, among candidates: [String]) -> String? {
        let distances = candidates.map { (candidate: $0, distance: distance(Array(name.utf8), Array($0.utf8))) }
        guard let nearest = distances.min(by: { $0.distance < $1.distance }) else { return nil }
        return nearest.distance <= max(2, name.utf8.count / 3) ? nearest.candidate : nil
    }

    /// Levenshtein's distance, a row at a time.
    private static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
        var row = Array(0...right.count)
        for (index, byte) in left.enumerated() {
            var diagonal = row[0]
            row[0] = index + 1
            for column in 1..<row.count {
                let substitution = diagonal + (byte == right[column - 1] ? 0 : 1)
                diagonal = row[column]
                row[column] = min(substitution, diagonal + 1, row[column - 1] + 1)
            }
        }
        return row.last ?? left.count
    }
}

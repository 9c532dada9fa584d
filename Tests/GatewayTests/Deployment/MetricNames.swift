import Foundation

/// The metrics in a metrics response, in `docs/metrics.md`, and in expressions.
struct MetricTable: Equatable {
    struct Family: Equatable {
        var kind = ""
        var labels: Set<String> = []
    }

    var families: [String: Family] = [:]

    /// The metrics that `/metrics` returns.
    init(page: String) {
        for line in page.split(separator: "\n") {
            if let match = line.wholeMatch(of: #/# TYPE (\w+) (\w+)/#) {
                families[String(match.1), default: Family()].kind = String(match.2)
            } else if let match = line.prefixMatch(of: #/(\w+)(?:\{(.*)\})? /#), !line.hasPrefix("#") {
                let name = Self.family(of: String(match.1), among: families)
                for label in (match.2 ?? "").matches(of: #/(\w+)="/#) where label.1 != "le" {
                    families[name, default: Family()].labels.insert(String(label.1))
                }
            }
        }
    }

    /// The table of `docs/metrics.md`: metric with its labels, kind, meaning.
    init(docs: String) {
        let row = #/\| `((?:sluice|process)_\w+)(?:\{([a-z_, ]+)\})?` \| (counter|gauge|histogram) \| .+ \|/#
        for line in docs.split(separator: "\n") {
            guard let match = line.wholeMatch(of: row) else { continue }
            let labels = (match.2 ?? "").split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
            families[String(match.1)] = Family(kind: String(match.3), labels: Set(labels))
        }
    }

    /// The metrics that expressions name, by family, without the suffixes of a histogram's series.
    static func used(in text: String) -> Set<String> {
        Set(
            text.matches(of: #/\b(?:sluice|process)_[a-z_]+/#).map {
                String($0.0).replacing(#/_(bucket|sum|count)$/#, with: "")
            }
        )
    }

    /// The suffixed names of a histogram's series.
    private static func family(of series: String, among families: [String: Family]) -> String {
        if families[series] != nil { return series }
        return series.replacing(#/_(bucket|sum|count)$/#, with: "")
    }
}

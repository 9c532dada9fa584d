import Foundation
import Subprocess

struct PostgresBinaries: Sendable {
    /// The folder of `initdb` and `postgres`.
    let folder: String

    /// The newest installation, or that of a cluster's major version.
    static func find(major: String?, path: String) throws -> PostgresBinaries {
        let root = "/usr/lib/postgresql"
        let versions = ((try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []).compactMap(Int.init)
        let wanted = versions.sorted(by: >).filter { major == nil || String($0) == major }
        let installed = wanted.map { "\(root)/\($0)/bin" }
        let candidates = installed + path.split(separator: ":").map(String.init)
        let found = candidates.first { folder in
            ["initdb", "postgres"].allSatisfy { FileManager.default.isExecutableFile(atPath: "\(folder)/\($0)") }
        }
        guard let found else {
            let product = major.map { "PostgreSQL \($0)" } ?? "PostgreSQL 15 or later"
            throw DevelopmentError(
                """
                No \(product) server is installed: neither \(root)/*/bin nor PATH has initdb and postgres.
                Install it: apt-get install postgresql
                """
            )
        }
        return PostgresBinaries(folder: found)
    }

    /// The environment of children: nothing in the caller's can point them elsewhere.
    var environment: Subprocess.Environment {
        .custom(["PATH": "\(folder):/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"])
    }
}

import Foundation

/// Files that operators write, as editors and shells of other systems save them.
enum FileForm {
    private static let utf8Mark: [UInt8] = [0xef, 0xbb, 0xbf]

    /// The content without the byte order mark that some editors put before UTF-8.
    static func withoutMark(_ data: Data) -> Data {
        data.starts(with: utf8Mark) ? data.dropFirst(utf8Mark.count) : data
    }

    /// Returns the defect of a file's form, to continue "names FILE, which"; nil for one that can be UTF-8.
    static func defect(_ data: Data) -> String? {
        if data.starts(with: [0xff, 0xfe]) || data.starts(with: [0xfe, 0xff]) {
            return "is UTF-16 with a byte order mark; save it as UTF-8"
        }
        return nil
    }

    /// Why a file cannot hold a secret, whose every byte counts; nil if nothing is wrong with its form.
    static func defect(ofSecret data: Data) -> String? {
        if data.starts(with: utf8Mark) {
            return "begins with a byte order mark (EF BB BF), which would be a part of the secret; "
                + "save it as UTF-8 without one"
        }
        return defect(data)
    }
}

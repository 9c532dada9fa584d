import Foundation
import SyncModel

extension Settings {
    /// Reads the file of master keys; its problems show only names from it.
    mutating func readMasterKeys(_ reader: inout SettingsReader) {
        guard let masterKeyFile else { return }
        let variable = Setting.masterKeyFile.variable
        guard let data = FileManager.default.contents(atPath: masterKeyFile) else {
            return reader.record("\(variable) names \(masterKeyFile), which cannot be read.")
        }
        guard data.count <= MasterKeys.maximumBytes else {
            return reader.record("\(variable) names \(masterKeyFile), which is not a file of master keys.")
        }
        if let defect = FileForm.defect(data) {
            return reader.record("\(variable) names \(masterKeyFile), which \(defect).")
        }
        do throws(MasterKeyError) {
            masterKeys = try MasterKeys(parsing: String(decoding: FileForm.withoutMark(data), as: UTF8.self))
        } catch {
            reader.record("\(variable) names \(masterKeyFile), which cannot be used: \(error).")
        }
        let attributes = try? FileManager.default.attributesOfItem(atPath: masterKeyFile)
        let mode = (attributes?[.posixPermissions] as? NSNumber)?.intValue ?? 0
        if mode & 0o007 != 0 {
            warnings.append("\(variable) names \(masterKeyFile), which every user can read; run chmod 600.")
        }
    }
}

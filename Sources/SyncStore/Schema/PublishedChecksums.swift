extension Schema {
    /// The SHA-256 of the published texts of migrations whose comments were corrected later.
    ///
    /// Databases store these checksums. If a migration is not listed, its text is still the published text.
    /// `scripts/lint-migrations` verifies that a listed migration still has its published statements.
    static let publishedChecksums: [String: String] = [
        "0001_base": "09bb0646808dbe023f58d992f20d44c784be63863fb43f31adf7388fed840691",
        "0002_upstream": "25392b5495c7a93aa27e9d78760af19e1488409e284de956747745322cd6053a",
        "0003_delivery": "ffe1fbe309b05507a7802749e78b2c16f28cb6499d7e2eb170c1114b06839416",
        "0004_retention": "955268a99a8342f73d73d63e7988ef0ac112f80f80e45480d60b26b2b195d3ce",
        "0005_quotas": "6bf0c44e482b19263728c6f4267194f233253556ff0f178b803e17099425626d",
        "0006_readers": "8b3068f20e218403cfcf22e4045bbc5505dbe458f28a3ad29271834adb275796",
        "0007_sealing": "b1f2e76d96d818996f9284d07d93b2dfec3869a0cbba61a376378fcfda8209fa",
        "0008_mapping_use": "e5c3beb135e8319e008a42e7d169d4d620e44986014925d4061a05674cdb437f",
        "0009_device_ids": "ac780cb41aa9abba07e429d160981a49d61ea86e7a6ed35fab836b5c4227658d",
        "0010_open_mutations_in_order": "bd9bd09b6dab0239a52240063290ddd104cf7541c28891cfe05c531c3e05a2a2",
        "0011_holds": "9add73302f3d631934022ad0aae6a78465b0817217e464ad76e4eb41b8d1c56c",
        "0012_ids": "a5a68199d253884116bcf8c8c3587ce96be45178c5fca837f0dad79d99aa4563",
        "0013_allowed_headers": "a8bd3ba09305a697c751bf33b715262ed91f14c8a62f4513df94bcdf66c22555",
        "0014_gateways": "abb6b357920ac900b72a50ba437f5ee6c740e6faeb2fc0c46d0ea7c7dbc6cf30",
        "0015_etags": "99aa8d1c51429d17348ef1907524d0ed84e90dbda4d66a727fc46515e4c00ab0",
        "0016_identities": "36b5eb70784f16f6749b81eba732a1e1d44f49018f8c94fbe9f58bdaa8f9a0ef",
        "0017_joined_users": "b6dcaaa4f65a65f3c2f9eac88a0f8c32bf75774f9ae59078e2eb2c7f093a0dea",
        "0018_ingest": "9cf681165afb184d713e625afcb829a8ebd4267d5f29aea5eb04566f89cbdf86",
        "0019_webhooks": "89b42dc2429f98654873ee4f47ac901c15177ab5cf94e5ecd6ec3b5a2a846a3c",
        "0020_erased_users": "0d5bf35cdeaed2ceef265913e24b2f0f69c5fe849790522b11abec982babd51a",
        "0021_sources": "80a7e417cf3a1f901662ea259291ecae28543c02724b026a23801563bfa015ef",
        "0022_order_of_parked_events": "dc33ef9febab0ddd7fe9c23b92be8ca635183175f90c503fb1adf411b883d82d",
        "0023_user_keys": "239098311fabeb528fdbde20d420812a554df44ea7a919c3a35c0939c3306be8",
        "0024_audit": "c85f3aab7dfc53deeb0faeef3ee1d0161558076edde589a69a306ff5a4c70f55",
        "0025_stuck_mutations": "fbba5766f2157be1bc04decede3c87a5d82e348436d09075ab3e98abbfcd1e1f",
        "0026_operations": "990bb6331019a1675dccd7135112f544c2b97fe378c6436594ab705f59edc404",
        "0027_stuck_mutations_by_id": "09357889dc6c40d5100e51fc98a41cc352c71b3e3ace9ac20dad1a7f56bbc830",
        "0028_halted_lanes_in_order": "b610d8843c193c962c9fe6c7b68bcaf9c8517e773dab4d8e04f27f8c8b5f1d2f",
        "0029_exact_moments": "ccb87ec25f6c1802e905f82665cb48877311620d44950b3b1e90dcd4bd60eae0",
        "0030_weak_etags_and_totals": "cabb64c542d4fa28683cda2510cf30e6d575c397b97f0b7ec4252f84ea61c7eb",
        "0031_ended_sessions": "2ada877c330ce6cd0764a34f689cb5d968f8ad07aaf068e93e7c82dde62236aa",
        "0032_relations": "8c2abc3bbb0a3c336a5be8e0a2c880267aa4d16e50635ee4b833a205a0f4e424",
        "0033_upstream_contract": "1a971866e63dc76d8f034deda3226faa4f3cdca9116423f767fae47f6b5eca48",
    ]
}

<?php
require __DIR__ . '/verify.php';

foreach (file($argv[1], FILE_IGNORE_NEW_LINES) as $line) {
    $secrets = explode("\t", $line);
    [$file, $header] = array_splice($secrets, 0, 2);
    echo is_from_keyhook(file_get_contents($file), $header, ...$secrets) ? 'true' : 'false', "\n";
}

<?php
require __DIR__ . '/verify.php';

foreach (file($argv[1], FILE_IGNORE_NEW_LINES) as $line) {
    [$file, $header, $secret] = explode("\t", $line);
    echo is_from_keyhook(file_get_contents($file), $header, $secret) ? 'true' : 'false', "\n";
}
